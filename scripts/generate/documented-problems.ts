import type { DocumentedProblem, Route } from "#functions/http/route-definition.ts";
import { type ProblemCode, problemCatalog, transportStatus } from "#functions/problems.ts";

/** A possible problem of a route. */
export interface PossibleProblem {
  code: ProblemCode;
  status: number;
}

const byGuard: Readonly<Record<Route["guard"]["kind"], readonly ProblemCode[]>> = {
  open: [],
  scope: ["unauthenticated", "token_clock_skew", "forbidden", "access_held"],
  bootstrap_token: [],
  collector: [],
  agent: [],
  web: ["unauthenticated", "token_clock_skew", "access_held"],
  web_itself: ["unauthenticated", "token_clock_skew", "forbidden", "access_held"],
  web_person: ["unauthenticated", "token_clock_skew", "forbidden", "access_held"],
  scim: ["unauthenticated"],
  ops: ["unauthenticated", "ops_access_denied"],
};

const ofBytes = [
  "body_timeout",
  "payload_too_large",
  "unsupported_media_type",
  "overloaded",
] as const satisfies readonly ProblemCode[];

/** Returns every problem of a route: its own, and those of its guard, its schemas and the server. */
export const problemsOf = (route: Route): PossibleProblem[] => {
  const listed: DocumentedProblem[] = [...byGuard[route.guard.kind], ...route.problems];
  if (route.body || route.bytesBody) listed.push(...ofBytes);
  if (route.body) listed.push("malformed_json");
  if (route.body || route.params || route.query) listed.push("validation_failed");
  listed.push("internal", "database_unavailable");
  const possible = new Map<string, PossibleProblem>();
  for (const entry of listed) {
    const { code, kind } =
      typeof entry === "string" ? { code: entry, kind: problemCatalog[entry].kind } : entry;
    const { http: status } = transportStatus[kind];
    possible.set(`${status} ${code}`, { code, status });
  }
  return [...possible.values()].sort((a, b) => a.status - b.status || (a.code < b.code ? -1 : 1));
};
