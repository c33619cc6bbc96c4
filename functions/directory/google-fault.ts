import * as v from "valibot";
import { JsonLimitError } from "#kit/foreign-json.ts";
import { DirectoryFault, type DirectoryFaultCode } from "./snapshot.ts";

/** The call that failed. */
export type GoogleCall = "token" | "first_page" | "page";

/** The list does not exist, as `members.list` reports for an unknown group. */
class ListNotFound extends DirectoryFault {}

/** Whether the first page of a list failed because the list does not exist; on a later page, the list would be incomplete. */
export const isNotFound = (error: unknown): boolean => error instanceof ListNotFound;

/** The used parts of a failed call. The client's error also has the request with its token, which must not be logged. */
const FailedCall = v.object({
  config: v.looseObject({}),
  status: v.optional(v.number()),
  code: v.optional(v.union([v.string(), v.number()])),
});

/** The machine-readable reason, of the API (in the form before AIP-193) or of OAuth. */
const Reason = v.union([
  v.pipe(
    v.object({
      response: v.object({
        data: v.object({ error: v.object({ errors: v.array(v.object({ reason: v.string() })) }) }),
      }),
    }),
    v.transform(({ response }) => response.data.error.errors[0]?.reason),
  ),
  v.pipe(
    v.object({ response: v.object({ data: v.object({ error: v.string() }) }) }),
    v.transform(({ response }) => response.data.error),
  ),
]);

/** Returns a failed call as a fault, with its status and reason and nothing else of the response or the request. */
export const faultOf = (error: unknown, call: GoogleCall): DirectoryFault => {
  const failed = v.safeParse(FailedCall, error);
  if (call === "token" && !failed.success)
    return new DirectoryFault(
      "key_file_unusable",
      "SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: its private key cannot sign",
    );
  const { cause } = Object(error) as Error;
  if (cause instanceof JsonLimitError)
    return new DirectoryFault("answer_malformed", `the directory: ${cause.message}`);
  const { status, code } = failed.success ? failed.output : {};
  const parsed = v.safeParse(Reason, error);
  const reason =
    parsed.success && /^\w{1,64}$/.test(parsed.output ?? "") ? parsed.output : undefined;
  const what = `${call === "token" ? "the token endpoint" : "the directory"}: ${[status ?? code ?? "no response", reason].filter(Boolean).join(" ")}`;
  if (call === "first_page" && status === 404) return new ListNotFound("answer_malformed", what);
  return new DirectoryFault(codeOf(status, reason, call), what);
};

const codeOf = (
  status: number | undefined,
  reason: string | undefined,
  call: GoogleCall,
): DirectoryFaultCode => {
  if (status === undefined) return "directory_unreachable";
  // Google also reports rate limits as 403.
  if (status === 429 || /(rateLimit|quota)Exceeded/i.test(reason ?? "")) return "rate_limited";
  if (status >= 500) return "directory_unavailable";
  if (call === "token") return "token_refused";
  return status === 401 || status === 403 ? "access_denied" : "answer_malformed";
};
