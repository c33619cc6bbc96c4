import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import {
  browseChanges,
  countRefusedChanges,
  type JudgedChange,
} from "#functions/domain/fleet/browse-changes.ts";
import { scope } from "#functions/http/guards.ts";
import { createList, listFields } from "#functions/http/resource.ts";
import { route, viewOf } from "#functions/http/route.ts";
import { FleetChange, FleetChangeList } from "#proto/fleet-health/changes.ts";

/** `GET /v1/collector/health/changes`: what hosts changed without a rollout, and how they compare since. */
export const healthChangesRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "fleet-changes");
  return route({
    method: "GET",
    path: "/v1/collector/health/changes",
    operationId: "listFleetChanges",
    summary:
      "Upgrades and changes of labels, newest first, each compared with unchanged hosts once it has soaked",
    guard: scope(core, "audit"),
    query: v.strictObject(listFields),
    replies: { 200: { description: "A page of changes", schema: FleetChangeList } },
    handle: async ({ query }) => {
      const refused = await countRefusedChanges(core);
      return list(
        query,
        (page) => browseChanges(core, page),
        changeView,
        () => ({ refused }),
      );
    },
  });
};

const view = viewOf(FleetChange);

const changeView = ({ fromValue: from, toValue: to, ...row }: JudgedChange): FleetChange =>
  view({ ...row, name: row.kind === "label" ? row.name : null, from, to });
