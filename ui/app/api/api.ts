import * as v from "valibot";
import { ApiProblem, problemOf } from "./problem.ts";

/** What reads from the server. */
export interface Api {
  /**
   * The answer of a path of ours, such as `/api/core/collector/health?limit=1`, parsed; members that the schema does not know are
   * left out. Rejects with an `ApiProblem`, or with the signal's reason once it is aborted.
   */
  get<Schema extends v.GenericSchema>(
    path: string,
    schema: Schema,
    signal?: AbortSignal,
  ): Promise<v.InferOutput<Schema>>;
}

/** An API over this `fetch`. Requests are same-origin, so the session's cookie goes with them. */
export const createApi = (options: { fetch: typeof fetch }): Api => ({
  async get(path, schema, signal) {
    const response = await options
      .fetch(path, { headers: { Accept: "application/json" }, ...(signal ? { signal } : {}) })
      .catch((error: unknown) => {
        throw signal?.aborted ? error : unreachable();
      });
    if (!response.ok) throw await problemOf(response);
    const body: unknown = await response.json().catch((error: unknown) => {
      if (error instanceof SyntaxError) return undefined;
      throw signal?.aborted ? error : unreachable();
    });
    const parsed = v.safeParse(schema, body);
    // All else was checked then, and is there.
    if (parsed.success || parsed.issues.every(isUnknownMember)) return parsed.output as v.InferOutput<typeof schema>;
    const requestId = response.headers.get("X-Request-Id") ?? undefined;
    const message = "The server's answer is not understood; reload the page to get its newest version";
    throw new ApiProblem({ code: "unreadable", status: response.status, message, requestId });
  },
});

/** A newer core says more: until web is updated as well, the page makes do with what it knows. */
const isUnknownMember = ({ type, expected }: v.BaseIssue<unknown>): boolean =>
  type === "strict_object" && expected === "never";

const unreachable = () => new ApiProblem({ code: "unreachable", status: 0, message: "The server cannot be reached" });
