import type { Core } from "#functions/core.ts";
import { readSetup } from "#functions/domain/enrollment/setup.ts";
import { resource } from "#functions/http/resource.ts";
import { Setup } from "#proto/operator/setup.ts";

/** The route that says which steps to the first host are done (docs/admin.md). */
export const setupReports = (core: Pick<Core, "config" | "db" | "clock" | "signer">) =>
  resource(core, "/v1/collector/setup", ({ get }) => ({
    getSetup: get(
      "",
      "Which steps of a new deployment are done, until its first host has enrolled",
      {
        returns: ["The steps, and what fills in the command of a host", Setup],
        handle: async () => await readSetup(core),
      },
    ),
  }));
