import { api, call } from "./client";

/** A request to a route that the OpenAPI document does not have yet. */
export function raw<T>(method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE", path: string, body?: unknown, headers?: Record<string, string>): Promise<T> {
  const untyped = api as unknown as Record<string, (path: string, init: object) => Promise<{ data?: T; error?: unknown; response: Response }>>;
  return call<T>(untyped[method]!(`/api/v1${path}`, { body, headers }));
}
