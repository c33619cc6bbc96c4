/** Why a sign-in was refused, as the sign-in page and the audit log name it. Stable. */
export type RefusalReason =
  | "not_in_directory"
  | "held"
  | "suspended"
  | "archived"
  | "unverified"
  | "absent"
  | "sign_in_failed"
  | "sign_in_not_fresh"
  | "sign_in_cancelled"
  | "sign_in_rejected"
  | "sign_in_unavailable";

/** The parts without which nobody can sign in. */
export const neededParts = ["identity_provider", "core", "database", "web_database"] as const;

/** The part that did not answer, as far as web knows: core reports `database`, and web itself queries `web_database`. */
export type NeededPart = (typeof neededParts)[number];

/** Errors of a provider that a retry does not resolve (RFC 6749, 4.1.2.1; OpenID Connect Core 1.0, 3.1.2.6). */
export const providerErrors = [
  "account_selection_required",
  "consent_required",
  "interaction_required",
  "invalid_request",
  "invalid_scope",
  "login_required",
  "unauthorized_client",
  "unsupported_response_type",
] as const;

/** The part that did not answer, or the provider's error. */
export type RefusalPart = NeededPart | (typeof providerErrors)[number];

/** The person whom a refusal concerns, as far as known. */
interface RefusedPerson {
  userId: string | null;
  subject: string | null;
}

/** A sign-in that ends on the sign-in page. `cause` is only logged. */
export class SignInRefusal extends Error {
  override readonly name = "SignInRefusal";
  readonly reason: RefusalReason;
  /** Whether the provider authenticated a person or accepted a code. Only such refusals are audited: anyone can forge the others. */
  readonly person: RefusedPerson | null;
  /** Why signing in is unavailable, or what the provider answered; null for every other reason, and where several parts may be the cause. */
  readonly part: RefusalPart | null;

  constructor(
    reason: RefusalReason,
    {
      cause,
      person = null,
      part = null,
    }: { cause?: unknown; person?: RefusedPerson | null; part?: RefusalPart | null } = {},
  ) {
    super(reason, { cause });
    this.reason = reason;
    this.person = person;
    this.part = part;
  }
}
