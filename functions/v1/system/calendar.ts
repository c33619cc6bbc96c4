import type { Core } from "#functions/core.ts";
import { readCalendar } from "#functions/domain/system/read-calendar.ts";
import { resource } from "#functions/http/resource.ts";
import { SystemCalendar } from "#proto/system/calendar.ts";

/** The route that lists what ends when (docs/rotate.md). */
export const systemCalendars = (core: Pick<Core, "config" | "db" | "reports" | "clock">) =>
  resource(core, "/v1/system/calendar", ({ get }) => ({
    readCalendar: get(
      "",
      "Certificates, keys, tokens and passwords of this installation, what ends next first",
      { returns: ["The calendar", SystemCalendar], handle: async () => await readCalendar(core) },
    ),
  }));
