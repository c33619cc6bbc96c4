import type { ReadCore } from "#functions/core.ts";
import {
  browseChanges,
  countRefusedChanges,
  type JudgedChange,
} from "#functions/domain/fleet/browse-changes.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import { FleetChange, FleetChangeList } from "#proto/fleet-health/comparison.ts";

/** The route that lists changes of hosts without a rollout, and their comparisons. */
export const changeReports = (core: ReadCore) =>
  resource(core, "/v1/collector/health", ({ list }) => ({
    listFleetChanges: list(
      "/changes",
      "Upgrades and changes of labels, newest first, each compared with unchanged hosts once it has soaked",
      {
        listName: "fleet-changes",
        returns: ["A page of changes", FleetChangeList],
        find: (page) => browseChanges(core, page),
        view: changeView,
        furtherMembers: async () => ({ refused: await countRefusedChanges(core) }),
      },
    ),
  }));

const view = viewOf(FleetChange);

const changeView = ({ fromValue: from, toValue: to, ...row }: JudgedChange): FleetChange =>
  view({ ...row, name: row.kind === "label" ? row.name : null, from, to });
