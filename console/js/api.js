import { known } from "./i18n.js";

/** Calls the HTTP API. This tab's session keeps the tokens; concurrent requests share one refresh. */
const BASE = "/api/v1";
let refreshing = null;

export const session = {
  get tokens() {
    return JSON.parse(sessionStorage.getItem("tokens") || "null");
  },
  set tokens(tokens) {
    if (tokens) sessionStorage.setItem("tokens", JSON.stringify(tokens));
    else sessionStorage.removeItem("tokens");
  },
  get isOpen() {
    return this.tokens !== null;
  },
};

export class ApiError extends Error {
  constructor(status, body) {
    super(known(`code_${body?.code}`) ?? (describe(body) || `HTTP ${status}`));
    this.status = status;
    this.code = body?.code;
  }
}

function describe(body) {
  const fields = body?.details?.fields?.map(({ field, reason }) => `${field}: ${reason}`).join("; ");
  return fields ? `${body.message} (${fields})` : body?.message;
}

async function send(method, path, body, headers) {
  const tokens = session.tokens;
  const response = await fetch(BASE + path, {
    method,
    headers: {
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(tokens ? { authorization: `Bearer ${tokens.accessToken}` } : {}),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const isJson = (response.headers.get("content-type") || "").includes("json");
  const answer = response.status === 204 ? null : isJson ? await response.json() : await response.text();
  return { response, answer };
}

async function refresh() {
  refreshing ??= send("POST", "/auth/refresh", { refreshToken: session.tokens.refreshToken }, { authorization: "none" })
    .then(({ response, answer }) => {
      // Only a 401 ends the session: a suspended tenant or a busy server may accept the token later.
      if (!response.ok && response.status !== 401) throw new ApiError(response.status, answer);
      session.tokens = response.ok ? answer : null;
      return response.ok;
    })
    .finally(() => (refreshing = null));
  return refreshing;
}

export async function call(method, path, body, headers = {}) {
  let { response, answer } = await send(method, path, body, headers);
  if (response.status === 401 && session.isOpen && !path.startsWith("/auth/") && (await refresh())) {
    ({ response, answer } = await send(method, path, body, headers));
  }
  if (response.ok) return answer;
  if (response.status === 401 && !session.isOpen) window.dispatchEvent(new Event("logged-out"));
  throw new ApiError(response.status, answer);
}

export const get = (path) => call("GET", path);
export const post = (path, body, headers) => call("POST", path, body, headers);
export const patch = (path, body) => call("PATCH", path, body);
export const remove = (path) => call("DELETE", path);
/** With an idempotency key, so that the repeat after a token refresh does not create a second one. */
export const postOnce = (path, body) => post(path, body, { "idempotency-key": crypto.randomUUID() });
