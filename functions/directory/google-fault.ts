import * as v from "valibot";
import { DirectoryFault, type DirectoryFaultCode } from "./snapshot.ts";

/** Which call it was. */
export type GoogleCall = "token" | "first_page" | "page";

/** A list that does not exist, as `members.list` says of a group. */
class ListNotFound extends DirectoryFault {}

/** Whether the first page of a list failed because there is no such list. Later that would be half a list. */
export const isNotFound = (error: unknown): boolean => error instanceof ListNotFound;

/** What is needed of a failed call; what the client throws also holds the request with its token, which no log may see. */
const FailedCall = v.object({
  config: v.looseObject({}),
  status: v.optional(v.number()),
  code: v.optional(v.union([v.string(), v.number()])),
});

/** The machine-readable reason: of the API (AIP-193's elder form), or of OAuth. */
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

/** A failed call as a fault: status and reason are told, nothing else of the answer or the request. */
export const faultOf = (error: unknown, call: GoogleCall): DirectoryFault => {
  const failed = v.safeParse(FailedCall, error);
  if (call === "token" && !failed.success)
    return new DirectoryFault("key_file_unusable", "the key file's private key cannot sign");
  const { status, code } = failed.success ? failed.output : {};
  const parsed = v.safeParse(Reason, error);
  const reason = parsed.success && /^\w{1,64}$/.test(parsed.output ?? "") ? parsed.output : undefined;
  const what = `${call === "token" ? "the token endpoint" : "the directory"}: ${[status ?? code ?? "no answer", reason].filter(Boolean).join(" ")}`;
  if (call === "first_page" && status === 404) return new ListNotFound("answer_malformed", what);
  return new DirectoryFault(codeOf(status, reason, call), what);
};

const codeOf = (status: number | undefined, reason: string | undefined, call: GoogleCall): DirectoryFaultCode => {
  if (status === undefined) return "directory_unreachable";
  // Google's limits also come as 403.
  if (status === 429 || /(rateLimit|quota)Exceeded/i.test(reason ?? "")) return "rate_limited";
  if (status >= 500) return "directory_unavailable";
  if (call === "token") return "token_refused";
  return status === 401 || status === 403 ? "access_denied" : "answer_malformed";
};
