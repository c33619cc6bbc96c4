import * as v from "valibot";
import type { Route } from "#functions/http/route-definition.ts";
import { problemsOf } from "#scripts/generate/documented-problems.ts";

/** A response as a client receives it. */
export interface Seen {
  status: number;
  contentType: string | null;
  body: unknown;
}

/** The patterns of routes: making them for each response would take as long as many responses. */
const patterns = new Map<string, RegExp>();
const patternOf = (route: string) => {
  const pattern =
    patterns.get(route) ??
    new RegExp(`^${route.replace(/[.]/g, "\\.").replace(/:[a-z_]+/g, "[^/]+")}$`);
  patterns.set(route, pattern);
  return pattern;
};

/**
 * Returns what a response has that its route does not document; undefined if it conforms. Every call of a test core is checked here, so
 * all route tests test the OpenAPI document.
 */
export const undocumented = (
  routes: readonly Route[],
  { method, path }: { method: string; path: string },
  { status, contentType, body }: Seen,
): string | undefined => {
  const { pathname } = new URL(path, "http://core.test");
  // As in the router, a literal path precedes a parameter.
  const entry =
    routes.find((route) => route.method === method && route.path === pathname) ??
    routes.find((route) => route.method === method && patternOf(route.path).test(pathname));
  if (entry === undefined) return undefined;
  const where = `${method} ${entry.path} returned ${status}`;
  if (contentType?.startsWith("application/problem+json")) {
    const code = (body as { code?: unknown }).code;
    const known = problemsOf(entry).some(
      (problem) => problem.status === status && problem.code === code,
    );
    return known ? undefined : `${where} ${String(code)}, which it does not list in its problems`;
  }
  const reply = entry.replies[status];
  if (reply === undefined) return `${where}, which is not among its replies`;
  if (reply.schema === undefined || contentType !== "application/json") return undefined;
  const parsed = v.safeParse(reply.schema, body);
  if (parsed.success) return undefined;
  const faults = parsed.issues.map((issue) => `${v.getDotPath(issue)}: ${issue.message}`);
  return `${where} with a body that its schema rejects: ${faults.join("; ")}`;
};
