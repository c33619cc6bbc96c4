import { type CoreClient, coreProblem } from "../core-client.ts";
import { WebProblem } from "../problems.ts";
import type { WebContext } from "../request.ts";
import type { WebSession } from "../session.ts";

/**
 * Calls core as a person, with JSON. Returns the parsed answer, undefined for one without a body, and null for 404. Throws 401
 * `unauthenticated` when core rejects the person, 503 `core_unavailable` or `database_unavailable` for any other failure.
 */
export const callCore = async (
  core: CoreClient,
  c: WebContext,
  { path, session, body }: { path: string; session: WebSession; body?: object },
): Promise<unknown> => {
  const response = await core.call({
    path,
    as: session,
    requestId: c.get("requestId"),
    ...(body && { method: "POST", json: body }),
  });
  if (response.status === 404 || response.status === 204) {
    await response.body?.cancel();
    return response.status === 404 ? null : undefined;
  }
  if (response.status === 401) throw new WebProblem("unauthenticated", { detail: "Sign in again" });
  if (!response.ok) throw await coreProblem(response, path);
  return response.json();
};
