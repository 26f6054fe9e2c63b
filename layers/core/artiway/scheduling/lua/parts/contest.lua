--[[ contest: the tenants that could go on a track, the smallest tag first. There may be many thousands, so this heap has four
children to a parent and its keys side by side: looking for the next one touches few lines of the processor's cache. Nobody
is searched in it: an entry that is no longer its tenant's head stays until it comes up, or until most are like that. ]]
local SPARE = 64

local function new_contest()
  return { size = 0, live = 0, tags = {}, seqs = {}, heads = {} }
end

local function contest_up(contest, at, tag, seq, head)
  local tags, seqs, heads = contest.tags, contest.seqs, contest.heads
  while at > 1 do
    local up = floor((at + 2) / 4)
    local other = tags[up]
    if other < tag or (other == tag and seqs[up] < seq) then
      break
    end
    tags[at], seqs[at], heads[at] = other, seqs[up], heads[up]
    at = up
  end
  tags[at], seqs[at], heads[at] = tag, seq, head
end

local function contest_down(contest, at, tag, seq, head)
  local tags, seqs, heads, size = contest.tags, contest.seqs, contest.heads, contest.size
  while true do
    local first = 4 * at - 2
    if first > size then
      break
    end
    local best, best_tag = first, tags[first]
    for child = first + 1, min(first + 3, size) do
      local other = tags[child]
      if other < best_tag or (other == best_tag and seqs[child] < seqs[best]) then
        best, best_tag = child, other
      end
    end
    if tag < best_tag or (tag == best_tag and seq < seqs[best]) then
      break
    end
    tags[at], seqs[at], heads[at] = best_tag, seqs[best], heads[best]
    at = best
  end
  tags[at], seqs[at], heads[at] = tag, seq, head
end

local function is_current(track, head)
  return head.tenant.heads[track.index] == head
end

local function drop_first(contest)
  local tags, seqs, heads, size = contest.tags, contest.seqs, contest.heads, contest.size
  local tag, seq, head = tags[size], seqs[size], heads[size]
  tags[size], seqs[size], heads[size] = nil, nil, nil
  contest.size = size - 1
  if size > 1 then
    contest_down(contest, 1, tag, seq, head)
  end
end

-- Keeps what counts, and builds the heap anew from the bottom.
local function tidy(track)
  local old, contest = track.contest, new_contest()
  local size = 0
  for at = 1, old.size do
    local head = old.heads[at]
    if is_current(track, head) then
      size = size + 1
      contest.tags[size], contest.seqs[size], contest.heads[size] = head.tag, head.seq, head
    end
  end
  contest.size, contest.live = size, old.live
  for at = floor((size + 2) / 4), 1, -1 do
    local head = contest.heads[at]
    contest_down(contest, at, head.tag, head.seq, head)
  end
  track.contest = contest
end

local function enter(track, head)
  if track.contest.size > 2 * track.contest.live + SPARE then
    tidy(track)
  end
  local contest = track.contest
  contest.size = contest.size + 1
  contest_up(contest, contest.size, head.tag, head.seq, head)
end

-- The head that comes first on a track, if there is one.
local function first_head(track)
  local contest = track.contest
  while contest.size > 0 do
    local head = contest.heads[1]
    if is_current(track, head) then
      return head
    end
    drop_first(contest)
  end
end

-- Those before a tag, by walking down only as far as they reach; one more than `most` is enough to know.
local function heads_before(track, tag, seq, most, found, at)
  local contest = track.contest
  found, at = found or {}, at or 1
  local other = contest.tags[at]
  if other and #found <= most and (other < tag or (other == tag and contest.seqs[at] < seq)) then
    if is_current(track, contest.heads[at]) then
      found[#found + 1] = contest.heads[at]
    end
    for child = 4 * at - 2, 4 * at + 1 do
      heads_before(track, tag, seq, most, found, child)
    end
  end
  return found
end
