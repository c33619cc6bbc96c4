/** Why somebody did not get in, as the sign-in page and the audit log name it. Stable. */
export type RefusalReason =
  | "not_in_directory"
  | "suspended"
  | "archived"
  | "unverified"
  | "absent"
  | "sign_in_failed"
  | "sign_in_cancelled"
  | "sign_in_unavailable";

/** Whom a refusal is about, as far as it is known. */
export interface RefusedPerson {
  userId: string | null;
  subject: string | null;
}

/** A sign-in that ends on the sign-in page. `cause` is only logged. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly reason: RefusalReason;
  /** Set where the provider vouched for somebody, or for a code: such refusals are audited, noise that anyone can make is not. */
  readonly person: RefusedPerson | null;

  constructor(
    reason: RefusalReason,
    { cause, person = null }: { cause?: unknown; person?: RefusedPerson | null } = {},
  ) {
    super(reason, { cause });
    this.reason = reason;
    this.person = person;
  }
}
