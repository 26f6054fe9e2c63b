#!/usr/bin/env bash
# Runs the given events, or all of events/, with `sam local invoke`, against the stack that `make run` started.
# Without Docker it prints a message and ends. SAM_LOCAL_ARGS goes to sam (e.g. --skip-pull-image).
set -euo pipefail
cd "$(dirname "$0")/.."
home=${ARTIWAY_HOME:-.artiway}
python=.venv/bin/python
sam=.tools/sam/bin/sam
work=.aws-sam/local
sink_port=8799 # the ResponseURL of events/deploy.*.json

if ! docker info >/dev/null 2>&1; then
  echo "sam-local: no Docker engine answers, so no event was run. Install and start Docker, then try again."
  exit 0
fi
if [[ ! -f $home/stack.json ]]; then
  echo "sam-local: no stack is running in $home; start it with 'make run' in another terminal." >&2
  exit 1
fi

export SAM_CLI_TELEMETRY=0 AWS_EC2_METADATA_DISABLED=true AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test
export UV=$PWD/.tools/uv/bin/uv PYTHON=$PWD/$python
PYTHON_VERSION=$($python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ARCHITECTURE=$(uname -m | sed 's/aarch64/arm64/')
export PYTHON_VERSION ARCHITECTURE
parameters=(--parameter-overrides "PythonRuntime=python$PYTHON_VERSION" "Architecture=$ARCHITECTURE")
mkdir -p "$work"
PATH=$PWD/.venv/bin:$PATH $sam build "${parameters[@]}" >"$work/build.log" 2>&1 || { cat "$work/build.log" >&2; exit 1; }

# Each function gets its environment of the running stack, changed by events/env.local.json, with the host name by which
# a container reaches this machine.
host=host.docker.internal
gateway=$(docker network inspect bridge --format '{{(index .IPAM.Config 0).Gateway}}')
$python - "$home" "$work" "$host" <<'PYTHON'
import json, re, sys
from pathlib import Path
from string import Template
from urllib.request import urlopen

home, work, host = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
facts = json.loads((home / "stack.json").read_text())
changes = json.loads(Template(Path("events/env.local.json").read_text()).substitute(facts))["Parameters"]
environment = {}
with urlopen(f"{facts['awsUrl']}/2015-03-31/functions/") as answer:
    for function in json.load(answer)["Functions"]:
        environment[function["FunctionName"]] = function["Environment"]["Variables"] | changes
text = json.dumps(environment)
file = work / "env.json"
file.touch(mode=0o600)
file.write_text(text.replace("127.0.0.1", host))
ports = {int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", text)}
(work / "ports").write_text(" ".join(map(str, ports)))

# SAM overrides only variables that the template names.
built = Path(".aws-sam/build/template.yaml").read_text()
named = re.sub(r"^( +)ARTIWAY_LOG_LEVEL:", r"\1AWS_ENDPOINT_URL: ''\n\g<0>", built, count=1, flags=re.MULTILINE)
Path(".aws-sam/build/local.yaml").write_text(named)
PYTHON

# Accepts the responses of custom resources, and forwards the ports for containers that cannot reach the loopback.
$python - "$gateway" "$sink_port" $(<"$work/ports") <<'PYTHON' &
import asyncio, contextlib, sys

gateway, sink, *ports = sys.argv[1], *map(int, sys.argv[2:])

async def copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()

def to(port):
    async def forward(reader, writer):
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))
    return forward

async def accept(reader, writer):
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
    await reader.readexactly(length)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    await writer.drain()
    writer.close()

async def main():
    await asyncio.start_server(accept, "127.0.0.1", sink)
    for port in [sink, *ports]:
        with contextlib.suppress(OSError):  # Docker Desktop has no such address and does not need it
            await asyncio.start_server(to(port), gateway, port)
    await asyncio.Event().wait()

asyncio.run(main())
PYTHON
bridge=$!
trap 'kill $bridge 2>/dev/null || true' EXIT

failed=0
[[ $# -gt 0 ]] || set -- events/*.json
for event in "$@"; do
  [[ $event == events/env.local.json ]] && continue
  folder=$(basename "$event"); folder=${folder%%.*}
  function=$($python - "$folder" <<'PYTHON'
import re, sys
text = open("template.yaml").read()
print(re.search(rf"^  (\w+):\n(?:    .*\n|\n)*?      CodeUri: functions/{sys.argv[1]}$", text, re.MULTILINE)[1])
PYTHON
)
  sed "s/127\.0\.0\.1/$host/" "$event" >"$work/event.json"
  if answer=$(timeout 120 $sam local invoke "$function" --event "$work/event.json" --template .aws-sam/build/local.yaml \
      --env-vars "$work/env.json" --add-host "$host:$gateway" "${parameters[@]}" ${SAM_LOCAL_ARGS:-} 2>"$work/stderr") \
      && [[ -n $answer && $answer != *'"errorType"'* ]]; then
    printf '  ok      %-36s %s\n' "$event" "$(tail -n 1 <<<"$answer" | cut -c 1-100)"
  else
    printf '  FAILED  %-36s %s\n' "$event" "$(tail -n 1 <<<"$answer" | cut -c 1-300)"
    tail -n 5 "$work/stderr"
    failed=1
  fi
done
exit $failed
