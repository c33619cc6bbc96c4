/** Why a sign-in was refused, as the sign-in page and the audit log name it. Stable. */
export type RefusalReason =
  | "not_in_directory"
  | "suspended"
  | "archived"
  | "unverified"
  | "absent"
  | "sign_in_failed"
  | "sign_in_cancelled"
  | "sign_in_unavailable";

/** The person whom a refusal concerns, as far as known. */
export interface RefusedPerson {
  userId: string | null;
  subject: string | null;
}

/** A sign-in that ends on the sign-in page. `cause` is only logged. */
export class SignInRefusal extends Error {
  override readonly name = "SignInRefusal";
  readonly reason: RefusalReason;
  /** Whether the provider authenticated a person or accepted a code. Only such refusals are audited: anyone can forge the others. */
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
