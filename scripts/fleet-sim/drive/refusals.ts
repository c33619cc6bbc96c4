import { problemCatalog } from "#functions/problems.ts";

/** Explains core's problem codes and the network's failures to the person who started a drive, with a remedy. */
const meanings: Readonly<Record<string, string>> = {
  token_invalid:
    "the bootstrap token is unknown, revoked, expired or used up; one for N hosts needs max_uses 0 or N, and a lifetime beyond the enrollments",
  identity_not_allowed:
    "the policy does not allow this prefix; --identity-prefix must be one of its allowed_identity_prefixes",
  identity_exists:
    "hosts of this prefix and seed were enrolled before, and their keys are lost; use another --seed, or a new prefix for each drive",
  identity_revoked:
    "hosts of this prefix and seed were revoked before; use another --seed or prefix",
  policy_name_taken: "a drive with this --run exists already; omit --run, or use another name",
  unauthenticated:
    "core rejects the operator's token: expired, for another core, or of a person who is not active there",
  not_found:
    "there is no such route; --drive must be core's base URL without /v1, and core needs a signer",
  econnrefused: "nothing listens there; is core running, and is the address right?",
  enotfound: "the host's name is unknown",
  etimedout: "core does not answer",
  timeout: "core does not answer in time",
  econnreset: "the connection was reset",
};

/** Returns a code of core or of the network with what it means here, or else with its title. */
export const explained = (code: string): string => {
  const titles: Readonly<Record<string, { title: string }>> = problemCatalog;
  const meaning = meanings[code] ?? titles[code]?.title;
  return meaning === undefined ? code : `${code}: ${meaning}`;
};

/** Core would reject every other host's enrollment too, so more attempts would only fill its audit log. */
const forAllHosts: ReadonlySet<string> = new Set([
  "token_invalid",
  "policy_frozen",
  "source_not_allowed",
  "identity_not_allowed",
  "device_not_allowed",
  "enrollment_limit_reached",
  "unauthenticated",
  "forbidden",
  "not_found",
]);

/** On a first attempt only: core may know a host whose response was lost. */
const forAllHostsAtFirst: ReadonlySet<string> = new Set(["identity_exists", "identity_revoked"]);

/** Reports whether no other host can enroll after this refusal. */
export const endsEnrollment = (code: string, attempt: number): boolean =>
  forAllHosts.has(code) || (attempt === 0 && forAllHostsAtFirst.has(code));
