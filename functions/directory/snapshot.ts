/** A user of the directory; flags and address as the directory has them, nothing judged. */
export interface DirectoryUser {
  /** Immutable, never used again for somebody else, and the `sub` of the identity provider. */
  id: string;
  primaryEmail: string;
  displayName: string;
  suspended: boolean;
  archived: boolean;
}

/** One whole reading of the directory: every user, and who is in the role groups, by user id, through nested groups too. */
export interface DirectorySnapshot {
  users: readonly DirectoryUser[];
  /** Null: there is no such group. */
  admins: ReadonlySet<string> | null;
  auditors: ReadonlySet<string> | null;
}

/** Why the directory could not be read; stable, alerts may be written against it. */
export type DirectoryFaultCode =
  /** The service account's key file is missing, open to others, or no key. */
  | "key_file_unusable"
  /** The token endpoint grants nothing: a wrong key, delegate or clock, or scopes that were not delegated. */
  | "token_refused"
  /** The API refuses what the token may do. */
  | "access_denied"
  | "rate_limited"
  /** The directory answers that it is in trouble. */
  | "directory_unavailable"
  /** No answer, or half of one. */
  | "directory_unreachable"
  /** An answer that is not what the protocol says, such as a truncated page. */
  | "answer_malformed";

/** The directory could not be read as a whole, so there is no snapshot. The message holds no credential and no answer's text. */
export class DirectoryFault extends Error {
  readonly code: DirectoryFaultCode;

  constructor(code: DirectoryFaultCode, message: string) {
    super(message);
    this.name = "DirectoryFault";
    this.code = code;
  }
}
