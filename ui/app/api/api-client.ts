import * as v from "valibot";
import { ageMs, type Moment, readMoment } from "../browser/moment.ts";

/** Reads from the server. */
export interface ApiClient {
  /**
   * Returns the parsed answer of a same-origin path, such as `/api/core/collector/health?limit=1`, without members that the schema
   * does not know. Rejects with an `ApiProblem`, `timeout` after 8 s without the whole answer, or with the signal's reason once it is
   * aborted.
   */
  get<Schema extends v.GenericSchema>(
    path: string,
    schema: Schema,
    signal?: AbortSignal,
  ): Promise<v.InferOutput<Schema>>;
  /** Sends a request and returns its successful response, the body unread. Rejects as `get` does, after 8 s without its headers. */
  send(path: string, request: ApiRequest): Promise<Response>;
  /**
   * Returns core's time at a moment of this machine, in milliseconds, by the newest response: this machine's own clock may be wrong by days.
   * Before the first response, returns this machine's time.
   */
  timeAt(moment: Moment): number;
}

/** A request that changes something, or whose answer is a stream. */
interface ApiRequest {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Sent as JSON. */
  body?: unknown;
  signal?: AbortSignal;
}

interface ApiProblemFields {
  code: string;
  status: number;
  message: string;
  requestId?: string | undefined;
  errors?: readonly FieldFault[];
}

/** A member of a request's body, and why the server rejected it. */
interface FieldFault {
  path: string;
  message: string;
}

/**
 * Why a request has no answer. `code` is the problem document's (RFC 9457), or one of the page's own: `unreachable` (the connection
 * failed), `timeout` (no answer in time), `unreadable` (the answer does not match its schema). `status` is 0 without an answer. The
 * message names the part that failed, as far as that is known, and may be shown.
 */
export class ApiProblem extends Error {
  override readonly name = "ApiProblem";
  readonly code: string;
  readonly status: number;
  /** Finds the request in the server's log. */
  readonly requestId: string | undefined;
  readonly errors: readonly FieldFault[];

  constructor({ code, status, message, requestId, errors = [] }: ApiProblemFields) {
    super(message);
    this.code = code;
    this.status = status;
    this.requestId = requestId;
    this.errors = errors;
  }
}

/** Returns a caught error that is a problem; throws any other again. */
export const caughtProblem = (error: unknown): ApiProblem => {
  if (error instanceof ApiProblem) return error;
  throw error;
};

/** Longer than the 5 s that web waits for core, so that web can report core's failure. */
const answerTimeoutMs = 8_000;
/** The number of reports that a page requests repeatedly. */
const answersMax = 8;

/** Creates a client over `fetch`. Requests are same-origin, so they carry the session cookie. */
export const createApiClient = (options: { fetch: typeof fetch }): ApiClient => {
  let seen: (Moment & { coreTime: number }) | undefined;
  const request = async (
    path: string,
    init: RequestInit & { signal?: AbortSignal },
  ): Promise<Response> => {
    const response = await options
      .fetch(path, init)
      .catch((error: unknown) => throwUnreachable(error, init.signal));
    const coreTime = Date.parse(response.headers.get("X-Core-Time") ?? "");
    if (coreTime) seen = { ...readMoment(), coreTime };
    if (!response.ok && response.status !== 304) throw await readProblem(response);
    return response;
  };
  /** Browsers store no answer. */
  const answers = new Map<string, { etag: string; body: object }>();
  /** Rejects late work without waiting for its end: a request that was begun ahead cannot be aborted. */
  const inTime = async <Result>(
    given: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> => {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), answerTimeoutMs);
    const timedOut = new Promise<never>((_, reject) => {
      late.signal.addEventListener("abort", () => {
        const message = `The web server did not answer within ${answerTimeoutMs / 1000} s`;
        reject(new ApiProblem({ code: "timeout", status: 0, message }));
      });
    });
    try {
      return await Promise.race([
        timedOut,
        work(given ? AbortSignal.any([given, late.signal]) : late.signal),
      ]);
    } finally {
      clearTimeout(timer);
    }
  };
  return {
    get: (path, schema, given) =>
      inTime(given, async (signal) => {
        const known = answers.get(path);
        const headers = {
          Accept: "application/json",
          ...(known?.etag && { "If-None-Match": known.etag }),
        };
        const response = await request(path, { headers, signal });
        const { status, headers: given } = response;
        const generated = given.get("X-Generated-At");
        if (status === 304)
          return parseAnswer(
            schema,
            { ...known?.body, ...(generated && { generated_at: generated }) },
            response,
          );
        const body = await response.json().catch((error: unknown) => {
          if (!(error instanceof SyntaxError)) throwUnreachable(error, signal);
        });
        if (answers.size > answersMax) answers.clear();
        answers.set(path, { etag: given.get("ETag") ?? "", body });
        return parseAnswer(schema, body, response);
      }),
    send: (path, { method, body, signal: given }) =>
      inTime(given, (signal) =>
        request(path, {
          method,
          ...(method === "GET" ? {} : { headers: { "Content-Type": "application/json" } }),
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
          signal,
        }),
      ),
    timeAt: (moment) => {
      if (!seen) return moment.at;
      // Compared by the monotonic clock, which nobody can set back.
      return seen.coreTime + (moment.tick < seen.tick ? -ageMs(moment, seen) : ageMs(seen, moment));
    },
  };
};

const throwUnreachable = (error: unknown, signal: AbortSignal | undefined): never => {
  if (signal?.aborted) throw error;
  throw new ApiProblem({
    code: "unreachable",
    status: 0,
    message: "The web server cannot be reached",
  });
};

/** Returns a parsed answer without members that the schema does not know; throws `unreadable`. */
export const parseAnswer = <Schema extends v.GenericSchema>(
  schema: Schema,
  body: unknown,
  response: Response,
): v.InferOutput<Schema> => {
  const parsed = v.safeParse(schema, body);
  // With unknown members as the only issues, every known member was checked and is in the output.
  if (parsed.success || parsed.issues.every(isUnknownMember))
    return parsed.output as v.InferOutput<Schema>;
  const message = "The page cannot read the server's answer; reload the page to update it";
  throw new ApiProblem({
    code: "unreadable",
    status: response.status,
    message,
    requestId: requestIdOf(response),
  });
};

/** A newer core may send more members than this page knows. */
const isUnknownMember = ({ type, expected }: v.BaseIssue<unknown>) =>
  type === "strict_object" && expected === "never";

const requestIdOf = (response: Response) => response.headers.get("X-Request-Id") ?? undefined;

const ProblemDocument = v.object({
  title: v.string(),
  detail: v.optional(v.string()),
  code: v.string(),
  request_id: v.optional(v.string()),
  errors: v.optional(v.array(v.object({ path: v.string(), message: v.string() })), []),
});

/** Reads a problem document; falls back to the status where a proxy answered instead. */
const readProblem = async (response: Response): Promise<ApiProblem> => {
  const { status } = response;
  const document = v.safeParse(ProblemDocument, await response.json().catch(() => undefined));
  if (!document.success) {
    const message = `A proxy answered with status ${status}`;
    return new ApiProblem({
      code: "unreadable",
      status,
      message,
      requestId: requestIdOf(response),
    });
  }
  const { title, detail = title, code, errors } = document.output;
  const requestId = document.output.request_id ?? requestIdOf(response);
  return new ApiProblem({ code, status, message: detail, requestId, errors });
};

/** Starts to read the JSON of a response at once, so that a later reader does not wait for the body. */
const readAhead = async (answer: Promise<Response>): Promise<Response> => {
  const response = await answer;
  const body: Promise<unknown> = response.json();
  // The caller receives the failure.
  body.catch(() => undefined);
  response.json = () => body;
  return response;
};

/** Creates a `fetch` for requests that begin before their caller is there. */
export const createFetchAhead = (fetch: typeof globalThis.fetch) => {
  const begun = new Map<string, Promise<Response>>();
  /** Requests a path now. The first call of `fetch` for it receives the response, and cannot be aborted. */
  const begin = (path: string): void => {
    const answer = readAhead(fetch(path, { headers: { Accept: "application/json" } }));
    // The caller receives the failure.
    answer.catch(() => undefined);
    begun.set(path, answer);
  };
  const fetchOrTake: typeof globalThis.fetch = (input, init) => {
    const path = String(input);
    const answer = begun.get(path);
    begun.delete(path);
    return answer ?? fetch(input, init);
  };
  return { begin, fetch: fetchOrTake };
};
