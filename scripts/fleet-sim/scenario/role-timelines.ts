import type { Role } from "./scenarios.ts";
import { type HostStatus, queueAt, type Step } from "./steps.ts";
import type { Timeline, TimelineContext } from "./timeline.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** What of a steady host's course is different for a role. */
type RoleTimeline = (context: TimelineContext) => Partial<Timeline>;

/** A change of what a steady host would say. */
const telling =
  (change: (status: HostStatus, at: number, context: TimelineContext) => Partial<HostStatus>): RoleTimeline =>
  (context) => ({
    statusAt: (at, idle) => {
      const status = context.steady.statusAt(at, idle);
      return { ...status, ...change(status, at, context) };
    },
  });

const note = (at: number, event: string, details?: Readonly<Record<string, string | number>>): Step => ({
  at,
  kind: "note",
  event,
  ...(details === undefined ? {} : { details }),
});

/** Enrolled so long ago that the one renewal falls on `at`; in a young fleet as every host. */
const enrolledBefore = ({ plan, steady, lifetime, part }: TimelineContext, at: number): number =>
  plan.past > 0 ? at - part(lifetime.usual, 0.5, 0.6) : steady.enrolledAt;

/** It is heard until `until` and no more. */
const silentFrom = ({ heartbeats, forwards, renewals }: Timeline, until: number) => ({
  renewals: renewals.filter((renewal) => renewal < until),
  heartbeats: heartbeats.map(({ from }) => ({ from, to: until })),
  forwards: forwards.map(({ from }) => ({ from, to: until })),
});

/** Core refuses it from the middle of the history on; the host does not know better than to go on. */
const revoked =
  (outcome: "identity_revoked" | "certificate_revoked"): RoleTimeline =>
  ({ at, steady, plan }) => {
    const from = at(0.5);
    const certificate = steady.renewals.filter((renewal) => renewal < from).length;
    const act: Step =
      outcome === "identity_revoked"
        ? { at: from, kind: "revoke_identity", reasonCode: "decommissioned" }
        : { at: from, kind: "revoke_certificate", certificate, reasonCode: "key_compromise" };
    return {
      // A renewal after it would be refused.
      renewals: steady.renewals.filter((renewal) => renewal < from),
      // Heartbeats at the very moment would be a race.
      heartbeats: steady.heartbeats.flatMap(({ from: first }) => [
        { from: first, to: from - 1 },
        { from: from + Math.floor(plan.beat / 4), to: plan.endsAt },
      ]),
      forwards: steady.forwards.map(({ from: first }) => ({ from: first, to: from - 1 })),
      refusal: { from, outcome },
      acts: [act],
    };
  };

/** How roles differ from `steady`; a role that is not here is told by the host's version alone. */
export const roleTimelines: Readonly<Partial<Record<Role, RoleTimeline>>> = {
  renewing: (context) => {
    const renewal = context.at(0.5);
    return { enrolledAt: enrolledBefore(context, renewal), renewals: [renewal] };
  },

  successor_waiting: (context) => {
    const renewal = context.at(0.7);
    return { enrolledAt: enrolledBefore(context, renewal), renewals: [renewal], takesUpLast: false };
  },

  outage_over: (context) => {
    const { steady, at, plan } = context;
    const [from, to, drained] = [at(0.3), at(0.5), at(0.7)];
    return {
      ...telling((status, moment) => ({
        queue:
          moment >= to && moment < drained
            ? queueAt((0.6 * (drained - moment)) / (drained - to), Math.ceil((drained - from) / 1000))
            : status.queue,
      }))(context),
      renewals: steady.renewals.filter((renewal) => renewal < from || renewal > to),
      heartbeats: steady.heartbeats.flatMap(({ from: first }) => [
        { from: first, to: from },
        { from: to, to: plan.endsAt },
      ]),
      forwards: steady.forwards.map(() => ({ from: to, to: plan.endsAt })),
      acts: [note(from, "outage.start"), note(to, "outage.end")],
    };
  },

  clock_off: ({ random, at, steady }) => {
    const skew = random.between(20_000, 100_000) * random.pick([1, -1]);
    const from = Math.max(at(0), steady.enrolledAt + 1);
    return { skewAt: () => skew, acts: [note(from, "clock.drift", { skew_ms: skew })] };
  },

  never_forwarded: (context) => ({
    ...telling((_, moment, { at }) => ({
      connected: false,
      lastError: "certificate verify failed: unable to get issuer certificate",
      queue: queueAt(
        Math.min(0.3, (0.3 * (moment - at(0))) / (at(1) - at(0))),
        Math.max(0, Math.floor((moment - at(0)) / 1000)),
      ),
    }))(context),
    forwards: [],
  }),

  rolled_back: telling(({ config }, _, { plan: { configs } }) => ({
    config: { ...config, running: configs.previous.hash, lastKnownGood: configs.previous.hash },
  })),

  drifted: telling(({ config }, _, { plan: { configs } }) => ({
    config: { ...config, running: configs.edited.hash, lastKnownGood: configs.previous.hash },
  })),

  proof_failed: ({ steady, at }) => ({
    acts: [
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
    // It will be heard before core gives it up.
    return {
      enrolledAt,
      renewals: [],
      heartbeats: [{ from: enrolledAt + 13 * minuteMs, to: plan.endsAt }],
      forwards: [{ from: enrolledAt + 13 * minuteMs, to: plan.endsAt }],
    };
  },

  renewal_refused: (context) => ({
    ...telling(({ renewal }, moment, { at }) => {
      if (moment < at(0.5)) return {};
      const lastError = "core refuses the renewal: identity_mismatch";
      return { renewal: { ...renewal, status: "failed", lastAttemptAt: at(0.5), nextAttemptAt: null, lastError } };
    })(context),
    renewals: context.steady.renewals.filter((renewal) => renewal < context.at(0.5)),
  }),

  expired: (context) => {
    const { plan, lifetime, part, steady } = context;
    const enrolledAt = plan.endsAt - part(lifetime.short, 1.02, 1.08);
    const expiresAt = enrolledAt + lifetime.short;
    const status: Timeline["statusAt"] = (moment, idle) => {
      const told = steady.statusAt(moment, idle);
      const late = moment > enrolledAt + lifetime.short * 0.83;
      const overdue = moment > enrolledAt + lifetime.short * 0.6;
      const [attemptAt, lastError] = overdue ? [moment - 1000, "unreachable: connect ECONNREFUSED"] : [null, null];
      const renewal = { status: late ? "failed" : overdue ? "retrying" : "ok", lastAttemptAt: attemptAt, lastError };
      return { ...told, renewal: { ...renewal, nextAttemptAt: null } as HostStatus["renewal"] };
    };
    const lastWords = Math.min(expiresAt - hourMs, plan.startsAt - 1);
    const isOver = expiresAt - 5000 < plan.startsAt;
    return {
      enrolledAt,
      ttl: "short",
      renewals: [],
      heartbeats: [{ from: Math.max(enrolledAt + 200, plan.startsAt), to: expiresAt - 5000 }],
      forwards: [{ from: Math.max(enrolledAt + 500, plan.startsAt), to: expiresAt - 5000 }],
      statusAt: status,
      acts: [
        ...(isOver
          ? [
              {
                at: lastWords,
                kind: "heartbeat" as const,
                certificate: 0,
                skew: 0,
                signedBy: "own_key" as const,
                expected: "accepted" as const,
                status: status(lastWords, queueAt(0, 0)),
              },
              { at: lastWords + 1, kind: "forward" as const, certificate: 0 },
            ]
          : []),
        note(expiresAt, "certificate.expire"),
      ],
    };
  },

  down: ({ steady, silentAtLatest, at, part }) => {
    const until = silentAtLatest - part(Math.max(0, silentAtLatest - at(0.2)), 0, 0.8);
    return { ...silentFrom(steady, until), acts: [note(until + 1, "outage.start")] };
  },

  clock_far: ({ steady, silentAtLatest, at, random }) => {
    const from = Math.min(at(0.4), silentAtLatest);
    // Ahead: a host whose clock was set back goes on from its newest `sent_at`, and is refused only later.
    const skew = random.between(180_000, 900_000);
    return {
      ...silentFrom(steady, from - 1),
      heartbeats: [...silentFrom(steady, from - 1).heartbeats, { from, to: at(1) }],
      refusal: { from, outcome: "clock_skew" },
      skewAt: (moment) => (moment < from ? 0 : skew),
      acts: [note(from, "clock.drift", { skew_ms: skew })],
    };
  },

  silent: () => ({ renewals: [], heartbeats: [], forwards: [] }),

  forwards_only: () => ({ renewals: [], heartbeats: [] }),

  cert_expiring: (context) => {
    const { plan, lifetime, part, steady } = context;
    const isNatural = !plan.canAge;
    const enrolledAt = isNatural ? plan.endsAt - part(lifetime.short, 0.77, 0.82) : steady.enrolledAt;
    const from = Math.max(enrolledAt + 200, plan.startsAt);
    return {
      ...telling(({ renewal }, moment) => ({
        renewal: {
          ...renewal,
          status: "retrying",
          lastAttemptAt: moment - 1000,
          nextAttemptAt: moment + minuteMs,
          lastError: "timeout: core did not answer in time",
        },
      }))(context),
      enrolledAt,
      ttl: isNatural ? "short" : "usual",
      renewals: [],
      heartbeats: [{ from, to: plan.endsAt }],
      forwards: [{ from: from + 300, to: plan.endsAt }],
      acts: isNatural ? [] : [{ at: enrolledAt + 1, kind: "age" }],
    };
  },

  config_broken: telling(({ config }, moment, { at, plan: { configs } }) => ({
    config: {
      ...config,
      running: configs.previous.hash,
      lastKnownGood: configs.previous.hash,
      ...(moment < at(0.5)
        ? {}
        : { valid: false, errors: ["forwarder.batch.max_bytes: must be an integer between 1024 and 4194304"] }),
    },
  })),

  config_unreadable: telling(({ config }, moment, { at }) =>
    moment < at(0.5)
      ? {}
      : { config: { ...config, valid: false, errors: ["line 12, column 3: is not valid YAML"], running: null } },
  ),

  queue_growing: telling((status, moment, { at }) => {
    const from = at(0.3);
    if (moment < from) return {};
    const part = Math.min(1, (moment - from) / (at(0.6) - from));
    return {
      connected: false,
      lastError: "unavailable: connect ETIMEDOUT",
      queue: { ...status.queue, ...queueAt(0.93 * part, Math.floor((moment - from) / 1000)) },
    };
  }),

  queue_dropping: telling((status, moment, { at }) => ({
    queue: { ...status.queue, dropped: Math.max(0, Math.floor((moment - at(0.1)) / 40)) },
  })),
};
