/** Requests that work as they stand, once the key is in the environment. */
export type SampleName = "curl" | "python" | "verify";

export function sampleOf(name: SampleName, origin: string): string {
  const api = `${origin}/api/v1`;
  if (name === "curl")
    return `export ARTIWAY_KEY=ak_...            # a key of this page
API=${api}
FILE=product.jpg

# 1. Ask for a place to upload the picture to
UPLOAD=$(curl -sf "$API/uploads" -H "Authorization: Bearer $ARTIWAY_KEY" -H "Content-Type: application/json" \\
  -d "{\\"contentType\\": \\"image/jpeg\\", \\"bytes\\": $(wc -c < "$FILE")}")
INPUT=$(echo "$UPLOAD" | jq -r .inputId)

# 2. Upload it
curl -sf -X PUT "$(echo "$UPLOAD" | jq -r .url)" -H "Content-Type: image/jpeg" --data-binary "@$FILE"

# 3. Start the task. The same Idempotency-Key never starts it twice.
TASK=$(curl -sf "$API/tasks" -H "Authorization: Bearer $ARTIWAY_KEY" -H "Content-Type: application/json" \\
  -H "Idempotency-Key: sample-$(date +%s)" -d "{\\"tool\\": \\"cutout\\", \\"inputs\\": {\\"product\\": \\"$INPUT\\"}}" | jq -r .taskId)

# 4. Read it until it has ended, then load the pictures
until curl -sf "$API/tasks/$TASK" -H "Authorization: Bearer $ARTIWAY_KEY" | tee task.json | jq -e '.endedAt' > /dev/null; do sleep 1; done
jq -r '.results[].downloadUrl' task.json | xargs -n 1 curl -sfOJ
`;
  if (name === "python")
    return `import os, time, uuid, pathlib, requests

api = "${api}"
session = requests.Session()
session.headers["Authorization"] = "Bearer " + os.environ["ARTIWAY_KEY"]
picture = pathlib.Path("product.jpg").read_bytes()

upload = session.post(f"{api}/uploads", json={"contentType": "image/jpeg", "bytes": len(picture)}).json()
requests.put(upload["url"], data=picture, headers=upload["headers"]).raise_for_status()

task = session.post(
    f"{api}/tasks",
    json={"tool": "cutout", "inputs": {"product": upload["inputId"]}},
    headers={"Idempotency-Key": str(uuid.uuid4())},
).json()
while task.get("endedAt") is None:
    time.sleep(1)
    task = session.get(f"{api}/tasks/{task['taskId']}").json()

for number, result in enumerate(task["results"]):
    pathlib.Path(f"result-{number}.png").write_bytes(requests.get(result["url"]).content)
`;
  return `import base64, hashlib, hmac, time

def is_genuine(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """\`headers\` by lower-case name, \`body\` as received."""
    if abs(time.time() - int(headers["webhook-timestamp"])) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    entries = (entry.partition(",") for entry in headers["webhook-signature"].split())
    return any(version == "v1" and hmac.compare_digest(value, wanted) for version, _, value in entries)
`;
}
