import type { Core } from "../core.ts";

/**
 * Creates a tick that grants to new roles of the server the privileges that core revoked from PUBLIC (docs/chat-sql.md). `admitRoles` returns
 * the roles for which it could not: the tick warns of the same ones once.
 */
export const createRoleAdmitter = (
  { log }: Pick<Core, "log">,
  admitRoles: () => Promise<readonly string[]>,
): (() => Promise<undefined>) => {
  let warned = "";
  return async () => {
    const roles = (await admitRoles()).join(", ");
    if (roles !== warned && roles !== "")
      log.warn(
        { roles },
        "core could not give these roles the privileges that it took from PUBLIC: docs/chat-sql.md has the statement",
      );
    warned = roles;
  };
};
