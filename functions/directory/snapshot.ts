/** A user, exactly as in the directory. */
export interface DirectoryUser {
  /** Immutable, never reused, and the `sub` of the identity provider. */
  id: string;
  primaryEmail: string;
  displayName: string;
  suspended: boolean;
  archived: boolean;
  /** Was active in a restored backup, and the directory has not stated it since. */
  held?: boolean;
}

/** A complete read of the directory: every user, and the user ids in the role groups, including nested groups. */
export interface DirectorySnapshot {
  users: readonly DirectoryUser[];
  /** Null if the group does not exist. */
  admins: ReadonlySet<string> | null;
  auditors: ReadonlySet<string> | null;
}

/** Why the directory could not be read; stable, because alerts use it. */
export type DirectoryFaultCode =
  /** The service account's key file is missing, open to others, or no key. */
  | "key_file_unusable"
  /** The directory file is missing, unreadable, or writable for others. */
  | "file_unusable"
  /** The directory file is no valid directory. */
  | "file_invalid"
  /** The token endpoint rejects the request: a wrong key, delegate or clock, or scopes that were not delegated. */
  | "token_refused"
  /** The API denies access to the token. */
  | "access_denied"
  | "rate_limited"
  /** The directory reports its own failure. */
  | "directory_unavailable"
  /** No response, or an incomplete one. */
  | "directory_unreachable"
  /** A response that violates the protocol, such as a truncated page. */
  | "answer_malformed";

/** The directory could not be read completely, so there is no snapshot. The message has no credential and no text of a response. */
export class DirectoryFault extends Error {
  readonly code: DirectoryFaultCode;

  constructor(code: DirectoryFaultCode, message: string) {
    super(message);
    this.name = "DirectoryFault";
    this.code = code;
  }
}
