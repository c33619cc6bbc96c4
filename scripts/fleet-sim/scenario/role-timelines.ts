import { hourMs, minuteMs } from "#kit/clock.ts";
import type { Role } from "./scenarios.ts";
import { type HostStatus, queueAt, type Step } from "./steps.ts";
import type { Timeline, TimelineContext } from "./timeline.ts";

/** Returns what differs from a steady host's timeline. */
type RoleTimeline = (context: TimelineContext) => Partial<Timeline>;

/** Changes what a steady host reports. */
const reporting =
  (
    change: (status: HostStatus, at: number, context: TimelineContext) => Partial<HostStatus>,
  ): RoleTimeline =>
  (context) => ({
    statusAt: (at, idle) => {
      const status = context.steady.statusAt(at, idle);
      return { ...status, ...change(status, at, context) };
    },
  });

const note = (
  at: number,
  event: string,
  details?: Readonly<Record<string, string | number>>,
): Step => ({
  at,
  kind: "note",
  event,
  ...(details === undefined ? {} : { details }),
});

/** Returns when a host enrolled whose only renewal is at `at`; in a young fleet, when every host does. */
const enrolledBefore = ({ plan, steady, lifetime, part }: TimelineContext, at: number): number =>
  plan.past > 0 ? at - part(lifetime.usual, 0.5, 0.6) : steady.enrolledAt;

/** The configs of hosts that run svc-collector. */
const collectorConfigs = ({ configs }: TimelineContext["plan"]) => configs["svc-collector"];

const silentFrom = ({ heartbeats, forwards, renewals }: Timeline, until: number) => ({
  renewals: renewals.filter((renewal) => renewal < until),
  heartbeats: heartbeats.map(({ from }) => ({ from, to: until })),
  forwards: forwards.map(({ from }) => ({ from, to: until })),
});

/** Core rejects the host from the middle of the history on; the host continues to send. */
const revoked =
  (outcome: "identity_revoked" | "certificate_revoked"): RoleTimeline =>
  ({ at, steady, plan }) => {
    const from = at(0.5);
    const renewals = steady.renewals.filter((renewal) => renewal < from);
    const revocation: Step =
      outcome === "identity_revoked"
        ? { at: from, kind: "revoke_identity", reasonCode: "decommissioned" }
        : {
            at: from,
            kind: "revoke_certificate",
            certificate: renewals.length,
            reasonCode: "key_compromise",
          };
    return {
      renewals,
      // A heartbeat at the time of the revocation would race with it.
      heartbeats: steady.heartbeats.flatMap(({ from: first }) => [
        { from: first, to: from - 1 },
        { from: from + Math.floor(plan.beat / 4), to: plan.endsAt },
      ]),
      forwards: steady.forwards.map(({ from: first }) => ({ from: first, to: from - 1 })),
      refusal: { from, outcome },
      events: [revocation],
    };
  };

/** How roles differ from `steady`; a role that is missing here differs by the host's version alone. */
export const roleTimelines: Readonly<Partial<Record<Role, RoleTimeline>>> = {
  renewing: (context) => {
    const renewal = context.at(0.5);
    return { enrolledAt: enrolledBefore(context, renewal), renewals: [renewal] };
  },

  successor_waiting: (context) => {
    const renewal = context.at(0.7);
    return {
      enrolledAt: enrolledBefore(context, renewal),
      renewals: [renewal],
      usesLastSuccessor: false,
    };
  },

  outage_over: (context) => {
    const { steady, at, plan } = context;
    const from = at(0.3);
    const to = at(0.5);
    const drained = at(0.7);
    return {
      ...reporting((status, now) => ({
        queue:
          now >= to && now < drained
            ? queueAt((0.6 * (drained - now)) / (drained - to), Math.ceil((drained - from) / 1000))
            : status.queue,
      }))(context),
      renewals: steady.renewals.filter((renewal) => renewal < from || renewal > to),
      heartbeats: steady.heartbeats.flatMap(({ from: first }) => [
        { from: first, to: from },
        { from: to, to: plan.endsAt },
      ]),
      forwards: steady.forwards.map(() => ({ from: to, to: plan.endsAt })),
      events: [note(from, "outage.start"), note(to, "outage.end")],
    };
  },

  clock_off: ({ random, at, steady }) => {
    const skew = random.between(20_000, 100_000) * random.pick([1, -1]);
    const from = Math.max(at(0), steady.enrolledAt + 1);
    return { skewAt: () => skew, events: [note(from, "clock.drift", { skew_ms: skew })] };
  },

  never_forwarded: (context) => ({
    ...reporting((_, now, { at }) => ({
      connected: false,
      lastError: "certificate verify failed: unable to get issuer certificate",
      queue: queueAt(
        Math.min(0.3, (0.3 * (now - at(0))) / (at(1) - at(0))),
        Math.max(0, Math.floor((now - at(0)) / 1000)),
      ),
    }))(context),
    forwards: [],
  }),

  rolled_back: reporting(({ config }, _, { plan }) => ({
    config: {
      ...config,
      running: collectorConfigs(plan).previous.hash,
      lastKnownGood: collectorConfigs(plan).previous.hash,
      desired: collectorConfigs(plan).current.hash,
      errors: ["desired config: rolled back: no heartbeat succeeded"],
    },
  })),

  drifted: reporting(({ config }, _, { plan }) => ({
    config: {
      ...config,
      running: collectorConfigs(plan).edited.hash,
      lastKnownGood: collectorConfigs(plan).previous.hash,
    },
  })),

  proof_failed: ({ steady, at }) => ({
    events: [
      {
        at: at(0.45),
        kind: "heartbeat",
        certificate: steady.renewals.filter((renewal) => renewal < at(0.45)).length,
        skew: 0,
        signedBy: "other_key",
        expected: "proof_invalid",
        status: steady.statusAt(at(0.45), queueAt(0, 0)),
      },
    ],
  }),

  identity_revoked: revoked("identity_revoked"),
  certificate_revoked: revoked("certificate_revoked"),

  enrolling: ({ plan, part, at }) => {
    const enrolledAt = plan.endsAt - part(Math.min(12 * minuteMs, at(1) - at(0)), 0.1, 0.8);
    // It sends its first heartbeat before core reports it as stale.
    const running = [{ from: enrolledAt + 13 * minuteMs, to: plan.endsAt }];
    return { enrolledAt, renewals: [], heartbeats: running, forwards: running };
  },

  renewal_refused: (context) => ({
    ...reporting(({ renewal }, now, { at }) => {
      if (now < at(0.5)) return {};
      const lastError = "core refuses the renewal: identity_mismatch";
      return {
        renewal: {
          ...renewal,
          status: "failed",
          lastAttemptAt: at(0.5),
          nextAttemptAt: null,
          lastError,
        },
      };
    })(context),
    renewals: context.steady.renewals.filter((renewal) => renewal < context.at(0.5)),
  }),

  expired: ({ plan, lifetime, part, steady }) => {
    const enrolledAt = plan.endsAt - part(lifetime.short, 1.02, 1.08);
    const expiresAt = enrolledAt + lifetime.short;
    const statusAt: Timeline["statusAt"] = (now, idle) => {
      const isOverdue = now > enrolledAt + lifetime.short * 0.6;
      const hasFailed = now > enrolledAt + lifetime.short * 0.83;
      return {
        ...steady.statusAt(now, idle),
        renewal: {
          status: hasFailed ? "failed" : isOverdue ? "retrying" : "ok",
          lastAttemptAt: isOverdue ? now - 1000 : null,
          nextAttemptAt: null,
          lastError: isOverdue ? "unreachable: connect ECONNREFUSED" : null,
        },
      };
    };
    const until = expiresAt - 5000;
    const lastAt = Math.min(expiresAt - hourMs, plan.startsAt - 1);
    const beforeHistory: Step[] = [
      {
        at: lastAt,
        kind: "heartbeat",
        certificate: 0,
        skew: 0,
        signedBy: "own_key",
        expected: "accepted",
        status: statusAt(lastAt, queueAt(0, 0)),
      },
      { at: lastAt + 1, kind: "forward", certificate: 0 },
    ];
    return {
      enrolledAt,
      ttl: "short",
      renewals: [],
      heartbeats: [{ from: Math.max(enrolledAt + 200, plan.startsAt), to: until }],
      forwards: [{ from: Math.max(enrolledAt + 500, plan.startsAt), to: until }],
      statusAt,
      events: [
        ...(until < plan.startsAt ? beforeHistory : []),
        note(expiresAt, "certificate.expire"),
      ],
    };
  },

  down: ({ steady, silentAtLatest, at, part }) => {
    const until = silentAtLatest - part(Math.max(0, silentAtLatest - at(0.2)), 0, 0.8);
    return { ...silentFrom(steady, until), events: [note(until + 1, "outage.start")] };
  },

  clock_far: ({ steady, silentAtLatest, at, random }) => {
    const from = Math.min(at(0.4), silentAtLatest);
    // Ahead: a host whose clock was set back continues from its newest `sent_at`, and is rejected only later.
    const skew = random.between(180_000, 900_000);
    const before = silentFrom(steady, from - 1);
    return {
      ...before,
      heartbeats: [...before.heartbeats, { from, to: at(1) }],
      refusal: { from, outcome: "clock_skew" },
      skewAt: (now) => (now < from ? 0 : skew),
      events: [note(from, "clock.drift", { skew_ms: skew })],
    };
  },

  silent: () => ({ renewals: [], heartbeats: [], forwards: [] }),

  forwards_only: () => ({ renewals: [], heartbeats: [] }),

  cert_expiring: (context) => {
    const { plan, lifetime, part, steady } = context;
    const enrolledAt = plan.isDatedBack
      ? steady.enrolledAt
      : plan.endsAt - part(lifetime.short, 0.77, 0.82);
    const from = Math.max(enrolledAt + 200, plan.startsAt);
    return {
      ...reporting(({ renewal }, now) => ({
        renewal: {
          ...renewal,
          status: "retrying",
          lastAttemptAt: now - 1000,
          nextAttemptAt: now + minuteMs,
          lastError: "timeout: core did not answer in time",
        },
      }))(context),
      enrolledAt,
      ttl: plan.isDatedBack ? "usual" : "short",
      renewals: [],
      heartbeats: [{ from, to: plan.endsAt }],
      forwards: [{ from: from + 300, to: plan.endsAt }],
    };
  },

  config_broken: reporting(({ config }, now, { at, plan }) => ({
    config: {
      ...config,
      running: collectorConfigs(plan).previous.hash,
      lastKnownGood: collectorConfigs(plan).previous.hash,
      ...(now < at(0.5)
        ? {}
        : {
            valid: false,
            errors: ["forwarder.batch.max_bytes: must be an integer between 1024 and 4194304"],
          }),
    },
  })),

  config_unreadable: reporting(({ config }, now, { at }) =>
    now < at(0.5)
      ? {}
      : {
          config: {
            ...config,
            valid: false,
            errors: ["line 12, column 3: is not valid YAML"],
            running: null,
          },
        },
  ),

  queue_growing: (context) => ({
    ...reporting((status, now, { at }) => {
      const from = at(0.3);
      if (now < from) return {};
      const part = Math.min(1, (now - from) / (at(0.6) - from));
      return {
        connected: false,
        lastError: "unavailable: connect ETIMEDOUT",
        queue: { ...status.queue, ...queueAt(0.93 * part, Math.floor((now - from) / 1000)) },
      };
    })(context),
    forwards: context.steady.forwards.map(({ from }) => ({ from, to: context.at(0.3) })),
  }),

  component_unhealthy: reporting((_, now, { at }) =>
    now < at(0.5)
      ? {}
      : { component: { lastError: "connection refused: 192.0.2.7:4317", since: at(0.5) } },
  ),

  queue_dropping: reporting((status, now, { at }) => ({
    queue: { ...status.queue, dropped: Math.max(0, Math.floor((now - at(0.1)) / 40)) },
  })),
};
