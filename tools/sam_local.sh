#!/usr/bin/env bash
# Runs every event of events/ with `sam local invoke`, against the stack that `make run` started.
# Needs Docker; without it there is nothing to run, and it says so. SAM_LOCAL_ARGS goes to sam (e.g. --skip-pull-image).
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

export SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test
export UV=$PWD/.tools/uv/bin/uv PYTHON=$PWD/$python
PYTHON_VERSION=$($python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ARCHITECTURE=$(uname -m | sed 's/aarch64/arm64/')
export PYTHON_VERSION ARCHITECTURE
parameters=(--parameter-overrides "PythonRuntime=python$PYTHON_VERSION" "Architecture=$ARCHITECTURE")
PATH=$PWD/.venv/bin:$PATH $sam build "${parameters[@]}" >/dev/null 2>&1 || { echo "sam-local: sam build failed; run it by itself to see why." >&2; exit 1; }

# Fill events/env.local.json from the running stack, and let the containers find its AWS.
mkdir -p "$work"
$python - "$home" "$work" <<'PYTHON'
import json, re, sys
from pathlib import Path
from string import Template
from urllib.parse import urlsplit
from urllib.request import urlopen

home, work = map(Path, sys.argv[1:])
facts = json.loads((home / "stack.json").read_text())
address = urlsplit(facts["databaseUrl"])
values = {key: value for key, value in facts.items() if isinstance(value, str)}
for role, password in json.loads((home / "database.json").read_text()).items():
    values[role] = f"postgresql://{role}:{password}@{address.hostname}:{address.port}{address.path}"

class Dotted(Template):
    braceidpattern = r"[A-Za-z_][\w.]*"

text = Path("events/env.local.json").read_text()
for name, variable in re.findall(r"\$\{(\w+)\.(\w+)\}", text):
    with urlopen(f"{facts['awsUrl']}/2015-03-31/functions/{name}/configuration") as answer:
        values[f"{name}.{variable}"] = json.load(answer)["Environment"]["Variables"][variable]
file = work / "env.json"
file.touch(mode=0o600)
file.write_text(Dotted(text).substitute({key: json.dumps(value)[1:-1] for key, value in values.items()}))

# SAM overrides only variables that the template names.
built = Path(".aws-sam/build/template.yaml").read_text()
named = re.sub(r"^( +)ARTIWAY_LOG_LEVEL:", r"\1AWS_ENDPOINT_URL: ''\n\g<0>", built, count=1, flags=re.MULTILINE)
Path(".aws-sam/build/local.yaml").write_text(named)
PYTHON

# Takes the answers of custom resources.
$python - "$sink_port" <<'PYTHON' &
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Sink(BaseHTTPRequestHandler):
    def do_PUT(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[1])), Sink).serve_forever()
PYTHON
sink=$!
trap 'kill $sink 2>/dev/null || true' EXIT

failed=0
for event in events/*.json; do
  [[ $event == events/env.local.json ]] && continue
  folder=$(basename "$event"); folder=${folder%%.*}
  function=$($python - "$folder" <<'PYTHON'
import re, sys
text = open("template.yaml").read()
print(re.search(rf"^  (\w+):\n(?:    .*\n|\n)*?      CodeUri: functions/{sys.argv[1]}$", text, re.MULTILINE)[1])
PYTHON
)
  # The host's network, because the stack listens on loopback alone.
  if answer=$($sam local invoke "$function" --event "$event" --template .aws-sam/build/local.yaml --env-vars "$work/env.json" \
      --docker-network host "${parameters[@]}" ${SAM_LOCAL_ARGS:-} 2>"$work/stderr") && [[ $answer != *'"errorType"'* ]]; then
    printf '  ok      %-36s %s\n' "$event" "${answer:0:90}"
  else
    printf '  FAILED  %-36s %s\n' "$event" "${answer:0:300}"
    tail -n 5 "$work/stderr"
    failed=1
  fi
done
exit $failed
