import type { Core } from "#functions/core.ts";
import { readTrust } from "#functions/domain/system/read-trust.ts";
import { resource } from "#functions/http/resource.ts";
import { SystemTrust } from "#proto/system/trust.ts";

/** The route that reports the roots that hosts have (docs/rotate.md). */
export const systemTrusts = (core: Pick<Core, "config" | "db" | "reports" | "clock">) =>
  resource(core, "/v1/system/trust", ({ get }) => ({
    readTrust: get(
      "",
      "The roots that hosts have, which hosts lack the newest, and when an old one may go",
      {
        returns: ["The roots by channel", SystemTrust],
        handle: async () => await readTrust(core),
      },
    ),
  }));
