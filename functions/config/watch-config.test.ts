import { expect, it } from "vitest";
import { ConfigError } from "#kit/env.ts";
import { coreEnvironment } from "#scripts/lab/core-environment.ts";
import { parseCoreConfig } from "./core-config.ts";

const secret = `whsec_${btoa("a secret of 24 bytes at least")}`;
const parse = (receivers: string) => {
  const env = {
    ...coreEnvironment("postgres://core@localhost/core"),
    SVC_WATCH_RECEIVERS_FILE: "/receivers",
  };
  return parseCoreConfig(env, (path) => (path === "/receivers" ? receivers : "")).config.watches();
};
const faultOf = (receivers: string) => {
  try {
    parse(receivers);
    return "none";
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.faults.map(({ variable, message }) => `${variable} ${message}`).join();
  }
};
const webhook = (more = "") => `web_url: https://fleet.example.com/
receivers:
  - kind: webhook
    name: on-call
    url: https://hooks.example.com/fleet
    secret: ${secret}
${more}`;
const alertmanager = (fields: string) => `web_url: https://fleet.example.com
receivers:
  - {kind: alertmanager, name: am, ${fields}}`;

it("has the receivers with their secrets, which print as redacted", () => {
  const config = parse(webhook(`    previous_secret: ${secret}\n`));
  expect(config).toMatchObject({
    webUrl: "https://fleet.example.com",
    receivers: [{ name: "on-call", allowPrivate: false, target: { kind: "webhook" } }],
  });
  expect(JSON.stringify(config)).not.toContain(secret);
  const [receiver] = config?.receivers ?? [];
  expect(
    receiver?.target.kind === "webhook" && receiver.target.secrets.map((each) => each.reveal()),
  ).toEqual([secret, secret]);
});

it.each([
  ["web_url: [", /line \d+ is not valid YAML/],
  ["receivers: []", "web_url is required"],
  [
    webhook().replace(secret, "whsec_short"),
    "receivers.0.secret must be whsec_ and 24 to 64 bytes in base64",
  ],
  [
    webhook().replace("https://hooks", "http://hooks"),
    "receivers.0 must have an https:// URL, or allow_private",
  ],
  [webhook().replace("on-call", "on call"), "receivers.0.name must be 1 to 64"],
  [
    webhook().replace("kind: webhook", "kind: smtp"),
    "receivers.0.kind must be webhook or alertmanager",
  ],
  [webhook("    colour: red\n"), "receivers.0.colour is not known"],
  [`${webhook()}${webhook().split("receivers:\n")[1]}`, "receivers names one receiver twice"],
  [
    alertmanager("url: 'http://am.example:9093', allow_private: true, bearer_token: abc"),
    "receivers.0 must have an https:// URL, or http:// of loopback, for its bearer_token",
  ],
  [
    alertmanager("url: 'https://am.example', labels: {severity: 1}"),
    "receivers.0.labels.severity must be text",
  ],
])("refuses a fault by its place, and quotes nothing", (text, fault) => {
  expect(faultOf(text)).toMatch(fault);
  expect(faultOf(text)).toMatch(/^SVC_WATCH_RECEIVERS_FILE /);
  expect(faultOf(text)).not.toContain("whsec_short");
});

it("takes an Alertmanager in a private network without TLS", () => {
  expect(
    parse(
      alertmanager("url: 'http://am.example:9093', allow_private: true, labels: {severity: page}"),
    ),
  ).toMatchObject({
    receivers: [
      {
        allowPrivate: true,
        target: { kind: "alertmanager", bearerToken: null, labels: { severity: "page" } },
      },
    ],
  });
});

it("keeps the URL of a webhook as it is", () => {
  const url = "https://hooks.example.com/teams/@on-call/?to=a@b.example";
  const config = parse(webhook().replace("https://hooks.example.com/fleet", url));
  expect(config?.receivers[0]?.url).toBe(url);
});
