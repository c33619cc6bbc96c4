import { runEvery } from "#kit/run-every.ts";
import type { Core } from "../core.ts";

const intervalMs = 10_000;

/**
 * Gives roles of the server that were created meanwhile what core took from PUBLIC (docs/chat-sql.md), at once and every few seconds, until
 * the signal aborts. `admitRoles` returns the roles that it could not give them to: the job warns of these once.
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
