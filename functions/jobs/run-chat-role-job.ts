import { runEvery } from "#kit/run-every.ts";
import type { Core } from "../core.ts";

const intervalMs = 10_000;

/**
 * Grants to new roles of the server the privileges that core revoked from PUBLIC (docs/chat-sql.md), immediately and every few seconds,
 * until the signal aborts. `admitRoles` returns the roles for which it could not: the job warns of each once.
 */
export const runChatRoleJob = (
  core: Pick<Core, "clock" | "log">,
  admitRoles: () => Promise<readonly string[]>,
  signal: AbortSignal,
): Promise<void> => {
  let warned = "";
  return runEvery(
    { name: "chat roles", intervalMs, clock: core.clock, signal, log: core.log },
    async () => {
      const roles = (await admitRoles()).join(", ");
      if (roles !== warned && roles !== "")
        core.log.warn(
          { roles },
          "core could not give these roles the privileges that it took from PUBLIC: docs/chat-sql.md has the statement",
        );
      warned = roles;
      return undefined;
    },
  );
};
