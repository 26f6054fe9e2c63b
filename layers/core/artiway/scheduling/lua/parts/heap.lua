--[[ heap: the smallest tag first, equal ones in order of arrival.

A crowd is a heap of lines that know their place (`at`), so any of them can leave. Most crowds are one line, or a few. ]]
local function sift_up(heap, entry, at)
  local tag, seq = entry.tag, entry.seq
  while at > 1 do
    local up = (at - at % 2) / 2
    local other = heap[up]
    if other.tag < tag or (other.tag == tag and other.seq < seq) then
      break
    end
    heap[at], other.at = other, at
    at = up
  end
  heap[at], entry.at = entry, at
end

local function sift_down(heap, entry, at)
  local tag, seq, size = entry.tag, entry.seq, #heap
  while true do
    local down = 2 * at
    if down > size then
      break
    end
    local other = heap[down]
    if down < size then
      local right = heap[down + 1]
      if right.tag < other.tag or (right.tag == other.tag and right.seq < other.seq) then
        other, down = right, down + 1
      end
    end
    if tag < other.tag or (tag == other.tag and seq < other.seq) then
      break
    end
    heap[at], other.at = other, at
    at = down
  end
  heap[at], entry.at = entry, at
end

local function heap_put(heap, entry)
  sift_up(heap, entry, #heap + 1)
end

local function heap_moved(heap, entry)
  local at = entry.at
  sift_up(heap, entry, at)
  if entry.at == at then
    sift_down(heap, entry, at)
  end
end

local function heap_drop(heap, entry)
  local at, size = entry.at, #heap
  local last = heap[size]
  heap[size], entry.at = nil, nil
  if last ~= entry then
    last.at, heap[at] = at, last
    heap_moved(heap, last)
  end
end
