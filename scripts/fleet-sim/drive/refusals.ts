/** What core's refusals and the network's failures mean to whoever started a drive, and what helps. */
const words: Readonly<Record<string, string>> = {
  token_invalid:
    "the bootstrap token is unknown, revoked, expired or used up; one for N hosts needs max_uses 0 or N, and a lifetime beyond the enrollments",
  policy_frozen: "the token's policy is frozen; take a token of another policy",
  source_not_allowed: "this machine's address is outside the allowed_source_cidrs of the token or its policy",
  identity_not_allowed:
    "the policy does not allow this prefix; --identity-prefix must be one of its allowed_identity_prefixes",
  device_not_allowed: "the token is bound to one device; take one that is not",
  enrollment_limit_reached: "the policy's max_enrollments is reached; take a policy with 0 or a greater limit",
  identity_exists:
    "hosts of this prefix and seed were enrolled before, and their keys are gone; take another --seed, or a prefix of its own for each drive",
  identity_revoked: "hosts of this prefix and seed were revoked before; take another --seed or prefix",
  policy_name_taken: "a drive with this --run was here before; leave --run out, or take another name",
  unauthenticated:
    "core does not know the operator's token: expired, for another core, or of a person who is not active there",
  forbidden: "the operator's token is not an admin's",
  not_found: "there is no such route; --drive must be core's base URL without /v1, and core needs a signer",
  econnrefused: "nothing listens there; is core running, and the address right?",
  enotfound: "the host's name is unknown",
  etimedout: "core does not answer",
  timeout: "core does not answer in time",
  econnreset: "the connection was cut",
};

/** What a code of core or of the network means here, with the code. */
export const explained = (code: string): string => {
  const meaning = Object.hasOwn(words, code) ? words[code] : undefined;
  return meaning === undefined ? code : `${code}: ${meaning}`;
};

/** Refusals of an enrollment that every other host would get too: to go on would only be noise in core's audit log. */
const forEverybody: ReadonlySet<string> = new Set([
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

/** Of a first attempt: whoever asks again after a lost answer is known to core already. */
const forEverybodyAtFirst: ReadonlySet<string> = new Set(["identity_exists", "identity_revoked"]);

/** Whether no other host can enroll after this refusal. */
export const endsEnrollment = (code: string, attempt: number): boolean =>
  forEverybody.has(code) || (attempt === 0 && forEverybodyAtFirst.has(code));
