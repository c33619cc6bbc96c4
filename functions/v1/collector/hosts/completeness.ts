import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import {
  type ReportedHour,
  reportHostHours,
} from "#functions/domain/completeness/report-completeness.ts";
import { scope } from "#functions/http/guards.ts";
import { IdParams } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import type { HourAccount, NamedExport } from "#functions/store/completeness/hour-facts.ts";
import { rfc3339 } from "#kit/clock.ts";
import { hasDelivered } from "#proto/completeness/hour-state.ts";
import { HostCompleteness, type HostHourView } from "#proto/completeness/report.ts";
import { hourRangeFields, hourRangeOf, shortageViews } from "../completeness/hour.ts";

/** `GET /v1/collector/hosts/{id}/completeness`: the states of a host's hours, and what their accounts say. */
export const hostCompletenessRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/collector/hosts/:id/completeness",
    operationId: "getHostCompleteness",
    summary:
      "The states of a host's hours, and what its accounts of them say: by default of the last week",
    guard: scope(core, "audit"),
    params: IdParams,
    query: v.strictObject(hourRangeFields),
    replies: { 200: { description: "The hours", schema: HostCompleteness } },
    problems: ["not_found"],
    handle: async ({ params, query }) => {
      const now = core.clock.now();
      const range = hourRangeOf(query, now);
      const { host, hours, exports } = await reportHostHours(core, params.id, range);
      const body: HostCompleteness = {
        generated_at: rfc3339(now),
        identity_id: params.id,
        host_id: host,
        from: rfc3339(range.fromMs),
        to: rfc3339(range.toMs),
        hours: hours.map((hour) => hourView(hour, exports)),
      };
      return { status: 200, body };
    },
  });

const hourView = (
  { hourMs, state, note, accounts, sums }: ReportedHour,
  exports: readonly NamedExport[],
): HostHourView => ({
  from: rfc3339(hourMs),
  state,
  shortages: shortageViews(note),
  figures: sums && {
    accepted: sums.accepted,
    stored: sums.stored,
    rejected: sums.rejected,
    discarded: sums.discarded,
    lost: sums.lost,
    missing: sums.missing,
    expired: sums.expired,
    damaged: sums.damaged,
    file_gap_bytes: sums.fileGapBytes,
    refused: { ...sums.refused },
    ran_seconds: Math.round(sums.ranMs / 1000),
    clock_ahead_seconds: Math.max(0, Math.round(sums.clockAheadMs / 1000)),
    delivered: exports.flatMap((one) => {
      const delivered = hasDelivered(sums, one);
      if (delivered === undefined) return [];
      const { records = 0, items = 0 } =
        sums.exportRejections.find(({ name }) => name === one.name) ?? {};
      return [{ export: one.name, delivered, rejected: records, rejected_items: items }];
    }),
  },
  accounts: accounts.map(accountView),
});

const accountView = (account: HourAccount): HostHourView["accounts"][number] => ({
  queue_id: account.queueId.toHex(),
  number: String(account.number),
  from: rfc3339(account.fromMs),
  to: rfc3339(account.toMs),
  received_at: rfc3339(account.receivedMs),
  first_sequence:
    account.accepted > 0 ? String(account.lastSequence - BigInt(account.accepted) + 1n) : null,
  last_sequence: account.accepted > 0 ? String(account.lastSequence) : null,
  stopped: account.isStopped,
  sink: account.sink,
  refused: account.refused,
});
