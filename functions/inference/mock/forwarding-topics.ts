import { ago, at, counted, fleetPath, hash, lasting, lines, more, numberIn, shown } from "./answer-words.ts";
import type { MockQuestion } from "./question.ts";
import { onPlatform, textLiteral } from "./sql.ts";
import { type AnswerRows, listed, none, once, type Row, type Topic } from "./topic.ts";

/** A host that has sent nothing for this long has stopped. */
const silentSeconds = 600;

/** The hosts that forwarded once and no longer do; with a period, those that stopped in it. */
const stoppedCondition = ({ since, periodSeconds, platform }: MockQuestion): string => {
  const stopped = `state <> 'revoked' and envelope_age_seconds > ${silentSeconds} and ${onPlatform(platform)}`;
  if (since !== null) return `${stopped} and last_envelope_at >= ${textLiteral(since)}::timestamptz`;
  return periodSeconds === null ? stopped : `${stopped} and envelope_age_seconds <= ${periodSeconds}`;
};

/** Hosts that stopped forwarding, and what they have in common. */
export const stopped: Topic = {
  example: "Which hosts stopped forwarding, and what do they have in common?",
  intent: "I look for hosts that forwarded once and no longer do, and compare them with the others.",
  matches: ({ text }) =>
    /stop|silent|quiet|no longer|(not|n't) (sen[dt]|forward)(?! (a |any )?heartbeat)|no (data|telemetry)|in common/.test(
      text,
    ),
  next: once((question) => {
    const condition = stoppedCondition(question);
    return [
      `select count(*) filter (where ${condition}) as stopped, count(*) as fleet,
        count(*) filter (where ${condition} and 'stale' = any(conditions)) as stale,
        min(last_envelope_at) filter (where ${condition}) as first_at,
        max(last_envelope_at) filter (where ${condition}) as last_at
        from collectors where state <> 'revoked' and last_envelope_at is not null`,
      `select d.property, d.value, count(*) filter (where h.stopped) as stopped, count(*) as fleet
        from (select (${condition}) as stopped, version, platform, policy, running_config_hash, forwarder_last_error
          from collectors where state <> 'revoked' and last_envelope_at is not null) h
        cross join lateral (values ('version', h.version), ('platform', h.platform), ('policy', h.policy),
          ('config', h.running_config_hash), ('last error', h.forwarder_last_error)) d(property, value)
        where d.value is not null group by d.property, d.value having count(*) filter (where h.stopped) > 0
        order by stopped desc, d.property, d.value limit 40`,
      `select device_id, state, envelope_age_seconds, heartbeat_age_seconds, forwarder_last_error from collectors
        where ${condition} order by envelope_age_seconds, device_id limit ${listed(question)}`,
    ];
  }),
  answer: (question, [[totals] = none, properties = [], hosts = []]) => {
    const count = numberIn(totals?.stopped);
    const place = question.platform === null ? "" : ` on ${question.platform}`;
    const period =
      question.since !== null
        ? ` since ${at(question.since)}`
        : question.periodSeconds !== null
          ? ` in the last ${lasting(question.periodSeconds)}`
          : "";
    if (count === 0 && place !== "") return `No host${place} stopped forwarding${period}.`;
    if (count === 0)
      return `No host stopped forwarding${period}: each of the ${counted(totals?.fleet, "host")} that ever forwarded did so within the last ${lasting(silentSeconds)}${period === "" ? "" : ", or stopped before"}.`;
    return lines(
      `${counted(count, "host")} of ${numberIn(totals?.fleet).toLocaleString("en-US")} that ever forwarded stopped${period}${place}: nothing for more than ${lasting(silentSeconds)}. The first stopped at ${at(totals?.first_at)}, the last at ${at(totals?.last_at)}.`,
      numberIn(totals?.stale) === count
        ? "All of them also stopped sending heartbeats: look at the hosts or their network first."
        : `Still sending heartbeats, so up and reaching core: ${count - numberIn(totals?.stale)}. Stale as well: ${numberIn(totals?.stale)}.`,
      commonLines(properties, count, numberIn(totals?.fleet)),
      "The hosts, the newest first:",
      hosts.map(
        (row) =>
          `- ${shown(row.device_id)} (${shown(row.state)}): last envelope ${ago(row.envelope_age_seconds)}, last heartbeat ${ago(row.heartbeat_age_seconds)}` +
          (row.forwarder_last_error ? `; last error: ${shown(row.forwarder_last_error)}` : ""),
      ),
      more(count, hosts.length),
      `Hosts by their last envelope: /fleet?sort=last_envelope_at&order=asc`,
    );
  },
};

/** Reports the properties that most stopped hosts share and that are rarer among the others, the rarest first. */
const commonLines = (properties: AnswerRows, stoppedCount: number, fleet: number): string[] => {
  const shared = properties
    .filter((row) => {
      const share = numberIn(row.stopped) / stoppedCount;
      return share >= 0.8 && share >= 1.2 * (numberIn(row.fleet) / fleet);
    })
    .sort((a, b) => numberIn(a.fleet) - numberIn(b.fleet));
  if (shared.length === 0) {
    const most = properties.filter((row) => numberIn(row.stopped) / stoppedCount >= 0.8);
    const same = most.map((row) => `${shown(row.property)} ${valueShown(row)}`).join(", ");
    return [
      same === ""
        ? "They have no version, platform, policy, config or last error in common."
        : `Nothing sets them apart: they share ${same}, but so do the other hosts.`,
    ];
  }
  return [
    "What they have in common, and the others less:",
    ...shared.map((row) => {
      const [stoppedHere, all] = [numberIn(row.stopped), numberIn(row.fleet)];
      const who = stoppedHere === stoppedCount ? "all of them" : `${stoppedHere} of ${stoppedCount}`;
      return `- ${shown(row.property)} ${valueShown(row)}: ${who}; ${stoppedHere} of the ${counted(all, "host")} with it stopped${linkOf(row)}`;
    }),
  ];
};

const valueShown = (row: Row): string => (row.property === "config" ? hash(row.value) : shown(row.value));

const linkOf = ({ property, value }: Row): string => {
  if (typeof value !== "string") return "";
  if (property === "version") return ` (${fleetPath({ version: [value] })})`;
  return property === "platform" ? ` (${fleetPath({ platform: [value] })})` : "";
};

/** Hosts that send heartbeats and have never forwarded. */
export const neverForwarded: Topic = {
  example: "Which hosts have never forwarded anything?",
  intent: "I look for hosts that send heartbeats and never forwarded.",
  matches: ({ text }) => /never/.test(text),
  next: once((question) => {
    const condition = "state <> 'revoked' and last_heartbeat_at is not null and last_envelope_at is null";
    return [
      `select count(*) as hosts, count(*) filter (where forwarder_connected) as connected from collectors where ${condition}`,
      `select device_id, state, platform, version, enrolled_at, forwarder_connected, forwarder_last_error from collectors
        where ${condition} order by enrolled_at, device_id limit ${listed(question)}`,
    ];
  }),
  answer: (_, [[totals] = none, hosts = []]) =>
    numberIn(totals?.hosts) === 0
      ? "Every host that sends heartbeats has forwarded at least once."
      : lines(
          `${counted(totals?.hosts, "host")} sent heartbeats and never forwarded. Connected to ingest at the last heartbeat, so without input or with nothing to send: ${numberIn(totals?.connected)}.`,
          hosts.map(
            (row) =>
              `- ${shown(row.device_id)} (${shown(row.state)}, ${shown(row.platform)}, ${shown(row.version)}): enrolled ${at(row.enrolled_at)}, ${row.forwarder_connected === true ? "connected" : "not connected"}` +
              (row.forwarder_last_error ? `; last error: ${shown(row.forwarder_last_error)}` : ""),
          ),
          more(totals?.hosts, hosts.length),
          `All of them: ${fleetPath({ forwarding: ["never"] })}`,
        ),
};
