import * as v from "valibot";
import type { ConfiguredCore, ReadCore } from "#functions/core.ts";
import { closeHostQueue, listHostQueues } from "#functions/domain/completeness/queues.ts";
import {
  type ReportedHour,
  reportHostHours,
} from "#functions/domain/completeness/report-completeness.ts";
import { reasonBody, resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import type { HourAccount, NamedExport } from "#functions/store/completeness/hour-facts.ts";
import { rfc3339 } from "#kit/clock.ts";
import { hasDelivered } from "#proto/completeness/hour-accounts.ts";
import {
  HostCompleteness,
  type HostHourView,
  HostQueues,
  HostQueueView,
} from "#proto/completeness/report.ts";
import { Id } from "#proto/values.ts";
import { hourRangeFields, hourRangeOf, shortageViews } from "../completeness/hour.ts";

/** The route that reports the hours of a host, on the pool of reports. */
export const hostHours = (core: ReadCore) =>
  resource(core, "/v1/collector/hosts", ({ get }) => ({
    getHostCompleteness: get(
      "/:id/completeness",
      "The states of a host's hours, and what its accounts of them say: by default of the last week",
      {
        query: v.strictObject(hourRangeFields),
        returns: ["The hours", HostCompleteness],
        handle: async ({ params, query }) => {
          const now = core.clock.now();
          const range = hourRangeOf(query, now);
          const { host, hours, exports } = await reportHostHours(core, params.id, range);
          return {
            generated_at: rfc3339(now),
            identity_id: params.id,
            host_id: host,
            from: rfc3339(range.fromMs),
            to: rfc3339(range.toMs),
            hours: hours.map((hour) => hourView(hour, exports)),
          };
        },
      },
    ),
  }));

/** The routes of a host's queues, present and past. */
export const hostQueues = (core: ConfiguredCore) =>
  resource(core, "/v1/collector/hosts", ({ get, act }) => ({
    listHostQueues: get(
      "/:id/queues",
      "The queues of a host that bind its hours, and how others ended, the newest first",
      {
        returns: ["The queues", HostQueues],
        handle: async ({ params }) => ({
          items: (await listHostQueues(core, params.id)).map(queueView),
        }),
      },
    ),

    closeHostQueue: act(
      "/:id/queues/:queue/close",
      "Close a queue that will not speak again: its open hours stay incomplete, later ones do without it",
      {
        params: QueueParams,
        ...reasonBody("disk_lost"),
        returns: ["The queues of the host", HostQueues],
        problems: ["conflict"],
        handle: async ({ params, body, ...by }) => {
          const change = { identityId: params.id, queueId: params.queue, ...body };
          return { items: (await closeHostQueue(core, by, change)).map(queueView) };
        },
      },
    ),
  }));

const hourView = (
  { hourStartMs, state, note, accounts, sums }: ReportedHour,
  exports: readonly NamedExport[],
): HostHourView => ({
  from: rfc3339(hourStartMs),
  state,
  shortages: shortageViews(note),
  figures:
    sums &&
    figuresView({
      ...sums,
      rules: [...sums.rules].map(([rule, counts]) => ({ rule, ...counts })),
      ranSeconds: Math.round(sums.ranMs / 1000),
      clockAheadSeconds: Math.max(0, Math.round(sums.clockAheadMs / 1000)),
      delivered: exports.flatMap((each) => {
        const delivered = hasDelivered(sums, each);
        if (delivered === undefined) return [];
        const { records: rejected = 0, items: rejectedItems = 0 } =
          sums.exportRejections.find(({ name }) => name === each.name) ?? {};
        return [{ export: each.name, delivered, rejected, rejectedItems }];
      }),
    }),
  accounts: accounts.map(accountView),
});

const figuresView = viewOf(HostCompleteness.entries.hours.item.entries.figures.wrapped);

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

const QueueParams = v.object({
  id: Id,
  queue: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/, "must be 32 hex digits")),
});

const queueView = viewOf(HostQueueView);
