import { errorCode } from "../../../kit/describe-error.ts";
import { ConfigError } from "../../../kit/env.ts";
import { SchemaMismatch } from "../../store/database/migrate.ts";
import type { DatabaseVariable } from "./database-servers.ts";

/** Those that PgBouncer reports with the SQLSTATE of a protocol violation. */
const faultsOfPooler: readonly (readonly [RegExp, string])[] = [
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

/** Faults that a restart of core does not fix, by SQLSTATE. */
const faultsOfSetting: Readonly<Record<string, string>> = {
  "28000": "names a role that the server does not admit",
  "28P01": "has a password that the server refuses",
  "3D000": "names a database that does not exist",
  "42501":
    "names a role that may not create or change core's tables: it must own them, and the schema",
};

/** Runs `run`. Throws `ConfigError` with `variable` for a fault that only another value of it mends. */
export const naming = async <Result>(
  variable: DatabaseVariable,
  run: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await run();
  } catch (error) {
    for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
      const { message: text } = cause;
      const message =
        faultsOfSetting[errorCode(cause) ?? ""] ??
        faultsOfPooler.find(([of]) => of.test(text))?.[1];
      if (message !== undefined) throw new ConfigError([{ variable, message }]);
    }
    if (error instanceof SchemaMismatch)
      throw new ConfigError([{ variable, message: error.message }]);
    throw error;
  }
};
