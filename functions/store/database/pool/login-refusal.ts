import { errorCode } from "#kit/describe-error.ts";

/** The program that prints the database's password failed. The message completes "SVC_DATABASE_URL …". */
export class PasswordFault extends Error {
  override readonly name = "PasswordFault";
  readonly code = "PASSWORD_UNAVAILABLE";

  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(`needs the password of SVC_DATABASE_PASSWORD_COMMAND: ${reason}`, options);
    this.reason = reason;
  }
}

/** Faults that PgBouncer reports with the SQLSTATE of a protocol violation, by a pattern of their message. */
const poolerFaults: readonly (readonly [RegExp, string])[] = [
  [
    /^unsupported startup parameter/,
    "has a parameter that the pooler refuses: remove it, or see its ignore_startup_parameters",
  ],
  [/^no such database/, "names a database that the pooler does not know"],
  [
    /authentication failed|^no such user/,
    "has a role or a password that the pooler or its server refuses",
  ],
  [
    /^(server login failed: .*)?(role|database) ".*" does not exist$/,
    "names a role or a database that the pooler's server does not have",
  ],
];

/** Faults of a login, by SQLSTATE. */
const loginFaults: Readonly<Record<string, string>> = {
  "28000": "names a role that the server does not admit",
  "28P01": "has a password that the server refuses",
  "3D000": "names a database that does not exist",
};

/**
 * Returns why the login of a new connection failed although the server answers, to complete "SVC_DATABASE_URL …", without a value; undefined
 * for another error.
 */
export const loginRefusalOf = (error: unknown): string | undefined => {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof PasswordFault) return cause.message;
    const { message: text } = cause;
    const found =
      loginFaults[errorCode(cause) ?? ""] ??
      poolerFaults.find(([pattern]) => pattern.test(text))?.[1];
    if (found !== undefined) return found;
  }
  return undefined;
};
