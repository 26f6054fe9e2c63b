--[[ contest: the crowds that could go on a track, the smallest tag first. There may be many thousands, so this heap has four
children to a parent and its keys side by side: looking for the next one touches few lines of the processor's cache. Nobody
is searched in it: a crowd that has gone, or got another tag, stays until it comes up, or until most are like that. Behind the
last tag stand three that nothing is behind, so that every child has its siblings. ]]
local SPARE = 64

local function new_contest()
  return { size = 0, live = 0, tags = { UNLIMITED, UNLIMITED, UNLIMITED }, seqs = {}, crowds = {} }
end

local function contest_up(contest, at, tag, seq, crowd)
  local tags, seqs, crowds, steps = contest.tags, contest.seqs, contest.crowds, 1
  while at > 1 do
    local up = (at + 2 - (at + 2) % 4) / 4
    local other = tags[up]
    if other < tag or (other == tag and seqs[up] < seq) then
      break
    end
    tags[at], seqs[at], crowds[at] = other, seqs[up], crowds[up]
    at, steps = up, steps + 1
  end
  queue.steps = queue.steps + steps
  tags[at], seqs[at], crowds[at] = tag, seq, crowd
end

-- Half of a dispatch among many tenants is spent in here, so it says things the way that is quickest: equal tags, which need
-- the order of arrival, are looked at only after "not larger".
local function contest_down(contest, at, tag, seq, crowd)
  local tags, seqs, crowds, size, steps = contest.tags, contest.seqs, contest.crowds, contest.size, 1
  while true do
    local best = 4 * at - 2
    if best > size then
      break
    end
    local best_tag, second, third, fourth = tags[best], best + 1, best + 2, best + 3
    local other = tags[second]
    if other <= best_tag and (other < best_tag or seqs[second] < seqs[best]) then
      best, best_tag = second, other
    end
    other = tags[third]
    if other <= best_tag and (other < best_tag or seqs[third] < seqs[best]) then
      best, best_tag = third, other
    end
    other = tags[fourth]
    if other <= best_tag and (other < best_tag or seqs[fourth] < seqs[best]) then
      best, best_tag = fourth, other
    end
    if tag <= best_tag and (tag < best_tag or seq < seqs[best]) then
      break
    end
    tags[at], seqs[at], crowds[at] = best_tag, seqs[best], crowds[best]
    at = best
    steps = steps + 1
  end
  queue.steps = queue.steps + steps
  tags[at], seqs[at], crowds[at] = tag, seq, crowd
end

local function is_current(contest, at)
  local crowd = contest.crowds[at]
  return crowd.tag == contest.tags[at] and crowd.seq == contest.seqs[at]
end

local function drop_first(contest)
  local tags, seqs, crowds, size = contest.tags, contest.seqs, contest.crowds, contest.size
  local tag, seq, crowd = tags[size], seqs[size], crowds[size]
  tags[size], tags[size + 3], seqs[size], crowds[size] = UNLIMITED, nil, nil, nil
  contest.size = size - 1
  if size > 1 then
    contest_down(contest, 1, tag, seq, crowd)
  end
end

-- Keeps what counts, each once, and builds the heap anew from the bottom.
local function tidy(track)
  local old, contest, seen, size = track.contest, new_contest(), {}, 0
  for at = 1, old.size do
    local crowd = old.crowds[at]
    if is_current(old, at) and not seen[crowd] then
      seen[crowd], size = true, size + 1
      contest.tags[size], contest.seqs[size], contest.crowds[size] = crowd.tag, crowd.seq, crowd
    end
  end
  for at = size + 1, size + 3 do
    contest.tags[at] = UNLIMITED
  end
  contest.size, contest.live = size, old.live
  for at = floor((size + 2) / 4), 1, -1 do
    local crowd = contest.crowds[at]
    contest_down(contest, at, crowd.tag, crowd.seq, crowd)
  end
  track.contest = contest
end

local function enter(track, crowd)
  if track.contest.size > 2 * track.contest.live + SPARE then
    tidy(track)
  end
  local contest = track.contest
  contest.size = contest.size + 1
  contest.tags[contest.size + 3] = UNLIMITED
  contest_up(contest, contest.size, crowd.tag, crowd.seq, crowd)
end

-- The crowd that comes first on a track, if there is one.
local function first_crowd(contest)
  while contest.size > 0 do
    if is_current(contest, 1) then
      return contest.crowds[1]
    end
    drop_first(contest)
  end
end

-- Those before a tag, by walking down only as far as they reach; one more than `most` is enough to know.
local function crowds_before(contest, tag, seq, most)
  local found, seen = {}, {}
  local function walk(at)
    local other = contest.tags[at]
    if other and #found <= most and (other < tag or (other == tag and contest.seqs[at] < seq)) then
      local crowd = contest.crowds[at]
      if is_current(contest, at) and not seen[crowd] then
        found[#found + 1], seen[crowd] = crowd, true
      end
      for child = 4 * at - 2, 4 * at + 1 do
        walk(child)
      end
    end
  end
  walk(1)
  return found
end
