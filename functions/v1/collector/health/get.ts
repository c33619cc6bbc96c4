import * as v from "valibot";
import type { ReadCore } from "#functions/core.ts";
import { reportHost } from "#functions/domain/fleet/report-host.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import type { CollectorEvent } from "#functions/store/audit/list.ts";
import type { HostLoss } from "#functions/store/export/dead-letters.ts";
import { PastTime } from "#proto/fleet-health/filter.ts";
import { FleetHealthDetail, FleetHistoryEvent } from "#proto/fleet-health/host.ts";
import { Id } from "#proto/values.ts";
import { outagesView } from "../outages.ts";
import { healthRowView, pastMarkOf, thresholdsView } from "./row.ts";

/** The route that reports one collector and its audit events. */
export const hostReports = (core: ReadCore) =>
  resource(core, "/v1/collector/health", ({ get }) => ({
    getFleetHealth: get(
      "/:identity_id",
      "One collector of the report, with the newest events of its identity, certificates and config",
      {
        params: v.object({ identity_id: Id }),
        query: v.strictObject({ at: v.optional(PastTime) }),
        returns: ["The collector", FleetHealthDetail],
        problems: ["not_found", "no_history"],
        handle: async ({ params, query }) => {
          const { rules, row, background, history, exportLosses } = await reportHost(
            core,
            params.identity_id,
            query.at,
          );
          const item = healthRowView(row, rules);
          return {
            generated_at: rules.now.toISOString(),
            ...pastMarkOf(rules),
            thresholds: thresholdsView(rules.thresholds),
            ...outagesView(rules.outages, Date.parse(item.enrolled_at)),
            item,
            config_errors: background.configErrors ?? [],
            ...(background.effectiveConfig !== null && {
              effective_config: background.effectiveConfig,
            }),
            policy: {
              id: background.policyId,
              name: background.policyName,
              reenrollment: background.reenrollment,
            },
            ...(exportLosses.length > 0 ? { export_losses: exportLosses.map(lossView) } : {}),
            history: history.map(eventView),
          };
        },
      },
    ),
  }));

const lossView = ({ name, envelopes, reason, lastAt }: HostLoss) => ({
  export: name,
  envelopes,
  reason,
  last_at: lastAt.toISOString(),
});

const eventViewOf = viewOf(FleetHistoryEvent);

const eventView = ({
  occurredAt: at,
  actorType: type,
  actorDisplay: display,
  ...event
}: CollectorEvent) => eventViewOf({ ...event, at, actor: { type, display } });
