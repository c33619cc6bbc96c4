import { describe, expect, it } from "vitest";
import { changes, refusals } from "./audit-topics.ts";
import { certificates } from "./certificates-topic.ts";
import { attention, drift, queues, states, versions } from "./fleet-topics.ts";
import { neverForwarded, stopped } from "./forwarding-topics.ts";
import { host } from "./host-topic.ts";
import { ingest } from "./ingest-topic.ts";
import { losses } from "./losses-topic.ts";
import { enrollments, groups } from "./population-topics.ts";
import { readQuestion } from "./question.ts";
import { topics } from "./topics.ts";

const asked: Readonly<Record<string, (typeof topics)[number] | undefined>> = {
  "How many hosts are enrolled?": attention,
  "How many hosts do we have?": attention,
  "How healthy is the fleet right now?": attention,
  "Which hosts are unhealthy?": attention,
  "is everything ok?": attention,
  "how many healthy hosts?": states,
  "how many hosts are offline?": states,
  "Which hosts are down?": states,
  "Which hosts have not sent a heartbeat in the last hour?": states,
  "Which hosts were revoked?": states,
  "Which hosts on windows/amd64 are stale?": states,
  "Which hosts stopped forwarding since the rollout, and what do they have in common?": stopped,
  "any hosts that haven't sent data today?": stopped,
  "which Linux hosts went quiet in the last 2 hours": stopped,
  "Which hosts have never reported?": neverForwarded,
  "how many hosts run 1.11.0?": versions,
  "Which hosts are not on the latest version?": versions,
  "how many linux hosts are there?": groups,
  "What platforms do we have?": groups,
  "Which policy has the most hosts?": groups,
  "newest hosts": enrollments,
  "how many enrollments today?": enrollments,
  "Which hosts enrolled in the last 24 hours?": enrollments,
  "Were any enrollments refused?": refusals,
  "Which hosts have clock skew?": refusals,
  "who failed to sign in": refusals,
  "Did any renewals fail?": certificates,
  "which hosts failed to renew": certificates,
  "certs expiring in the next 3 days": certificates,
  "who is running the wrong config?": drift,
  "Did any host drift?": drift,
  "who drops records?": losses,
  "is any host losing data?": losses,
  "Which hosts lost data?": losses,
  "Which hosts lost data in the last hour?": losses,
  "How much data was lost per hour?": losses,
  "Are there gaps?": losses,
  "Which hosts lost contact?": undefined,
  "Which queues are at risk?": queues,
  "Who revoked hosts this week?": changes,
  "who changed the config yesterday?": changes,
  "Who signed in today?": changes,
  "what did Ada do today?": changes,
  "what happened to host-26 yesterday?": host,
  "How much data are we ingesting per hour?": ingest,
  "What is the meaning of life?": undefined,
};

describe("the topic of a question", () => {
  it.each(Object.entries(asked))("%s", (question, topic) => {
    const found = topics.find(({ matches }) => matches(readQuestion(question)));
    expect(found?.example).toBe(topic?.example);
  });
});
