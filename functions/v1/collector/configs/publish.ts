import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import { checkConfig, publishConfig } from "#functions/domain/config/publish.ts";
import { scope } from "#functions/http/resource.ts";
import { route, viewOf } from "#functions/http/route.ts";
import { Name } from "#functions/v1/shapes.ts";
import { agentKinds, QueryFlag, Text } from "#proto/values.ts";
import { ConfigView, configView } from "./config.ts";

const PublishBody = v.strictObject({
  name: v.optional(v.nullable(Name), null),
  kind: v.optional(v.picklist(agentKinds), "svc-collector"),
  yaml: Text,
});

/** Faults with which an agent still runs the config: components that nothing uses. */
const Warnings = v.array(
  v.strictObject({ path: v.string(), line: v.number(), column: v.number(), message: v.string() }),
);

const CheckedView = v.strictObject({
  valid: v.literal(true),
  config_hash: v.string(),
  size_bytes: v.number(),
  warnings: Warnings,
});

const checkedView = viewOf(CheckedView);

const PublishedView = v.strictObject({ ...ConfigView.entries, warnings: Warnings });

/** `POST /v1/collector/configs`: publishes a collector config, or with `dry_run=true` only checks it. */
export const publishConfigRoute = (core: ConfiguredCore) =>
  route({
    method: "POST",
    path: "/v1/collector/configs",
    operationId: "publishCollectorConfig",
    summary:
      "Publish the config of a kind of agent as JSON, or a svc-collector's as raw YAML; dry_run=true only checks it",
    guard: scope(core, "admin"),
    query: v.strictObject({ dry_run: QueryFlag }),
    body: PublishBody,
    textBody: { type: "application/yaml", read: (yaml) => ({ yaml }) },
    bodyExample: {
      name: "web servers",
      yaml: "forwarder:\n  endpoint: ingest.example.com:8443\n  mtls: {cert_file: current/tls.crt, key_file: current/tls.key, ca_file: ca.pem}\nbuffer: {dir: /var/lib/svc-collector}\n",
    },
    replies: {
      200: { description: "A dry run: the config may be published", schema: CheckedView },
      201: { description: "The published config", schema: PublishedView },
    },
    problems: ["config_invalid", "config_contains_secret"],
    handle: async ({ query, body, ...by }) => {
      const { config, warnings } = await checkConfig(body.yaml, body.kind);
      if (query.dry_run)
        return { status: 200, body: checkedView({ ...config, warnings, valid: true }) };
      const published = await publishConfig(core, by, { name: body.name, config });
      return { status: 201, body: { ...configView(published), warnings } };
    },
  });
