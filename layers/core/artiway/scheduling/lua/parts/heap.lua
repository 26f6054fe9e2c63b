--[[ heap: the smallest tag first, equal ones in order of arrival.

A crowd is a heap of lines that know their place (`at`), so any of them can leave. Most crowds are one line, or a few. ]]
local function sift_up(crowd, line, at)
  local tag, seq = line.tag, line.seq
  while at > 1 do
    local up = (at - at % 2) / 2
    local other_line = crowd[CROWD + up]
    if other_line.tag < tag or (other_line.tag == tag and other_line.seq < seq) then
      break
    end
    crowd[CROWD + at], other_line.at = other_line, at
    at = up
  end
  crowd[CROWD + at], line.at = line, at
end

local function sift_down(crowd, line, at)
  local tag, seq, size = line.tag, line.seq, #crowd - CROWD
  while true do
    local down = 2 * at
    if down > size then
      break
    end
    local other_line = crowd[CROWD + down]
    if down < size then
      local right_line = crowd[CROWD + down + 1]
      if right_line.tag < other_line.tag or (right_line.tag == other_line.tag and right_line.seq < other_line.seq) then
        other_line, down = right_line, down + 1
      end
    end
    if tag < other_line.tag or (tag == other_line.tag and seq < other_line.seq) then
      break
    end
    crowd[CROWD + at], other_line.at = other_line, at
    at = down
  end
  crowd[CROWD + at], line.at = line, at
end

local function heap_put(crowd, line)
  sift_up(crowd, line, #crowd - CROWD + 1)
end

local function heap_moved(crowd, line)
  local at = line.at
  sift_up(crowd, line, at)
  if line.at == at then
    sift_down(crowd, line, at)
  end
end

local function heap_drop(crowd, line)
  local at, size = line.at, #crowd - CROWD
  local last_line = crowd[CROWD + size]
  crowd[CROWD + size], line.at = nil, nil
  if last_line ~= line then
    last_line.at, crowd[CROWD + at] = at, last_line
    heap_moved(crowd, last_line)
  end
end
