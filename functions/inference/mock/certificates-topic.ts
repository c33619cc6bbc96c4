import { at, counted, fleetPath, lasting, lines, more, numberIn, shown } from "./answer-words.ts";
import { daySeconds, listed, none, once, type Topic } from "./topic.ts";

/** Certificates that expire within a period; a host counts by its certificate or, if that is later, its unused successor. */
export const certificates: Topic = {
  example: "Which certificates expire within 7 days?",
  intent: "I look for certificates that expire soon.",
  matches: ({ text }) => /certificate|\bcerts?\b|expir|renew/.test(text),
  next: once((question) => {
    const seconds = question.periodSeconds ?? 7 * daySeconds;
    const condition = `state <> 'revoked' and certificate_seconds_left <= ${seconds}
      and (successor_not_after is null
        or certificate_seconds_left + extract(epoch from successor_not_after - certificate_not_after) <= ${seconds})`;
    return [
      `select count(*) filter (where ${condition}) as expiring,
        count(*) filter (where ${condition} and certificate_seconds_left <= 0) as expired,
        count(*) filter (where 'renewal_failed' = any(conditions)) as failed, count(*) as fleet
        from collectors where state <> 'revoked'`,
      `select device_id, state, certificate_not_after, certificate_seconds_left, renewal_status, renewal_last_error from collectors
        where ${condition} order by certificate_not_after, device_id limit ${listed(question)}`,
    ];
  }),
  answer: ({ periodSeconds }, [[totals] = none, hosts = []]) => {
    const seconds = periodSeconds ?? 7 * daySeconds;
    const failed =
      numberIn(totals?.failed) === 0
        ? "No renewal has failed."
        : `The renewal of ${counted(totals?.failed, "host")} failed: ${fleetPath({ states: ["renewal_failed"] })}`;
    if (numberIn(totals?.expiring) === 0)
      return lines(`No certificate of ${counted(totals?.fleet, "host")} expires within ${lasting(seconds)}.`, failed);
    return lines(
      `The certificates of ${counted(totals?.expiring, "host")} of ${numberIn(totals?.fleet).toLocaleString("en-US")} expire within ${lasting(seconds)}, without a successor that lasts longer; expired already: ${numberIn(totals?.expired)}.`,
      hosts.map(
        (row) =>
          `- ${shown(row.device_id)} (${shown(row.state)}): ${numberIn(row.certificate_seconds_left) <= 0 ? "expired" : "expires"} ${at(row.certificate_not_after)}, renewal ${shown(row.renewal_status ?? "not reported")}` +
          (row.renewal_last_error ? ` (${shown(row.renewal_last_error)})` : ""),
      ),
      more(totals?.expiring, hosts.length),
      failed,
      `All of them: ${fleetPath({ expiresWithinSeconds: seconds })}`,
    );
  },
};
