/*
 * Checks the config of an OpenTelemetry Collector as far as its text alone shows: its sections, and what its pipelines refer to. The
 * settings of a component are the agent's own to judge.
 */
import * as v from "valibot";
import { textErrorOf } from "../collector-config/parse.ts";
import {
  type ConfigTextError,
  configErrorsMax,
  type ParsedTree,
  type TreePath,
} from "../collector-config/tree.ts";
import { section } from "../values.ts";

/** The sections of components, by the names that pipelines and `available_components` use too. */
const groups = ["receivers", "processors", "exporters", "connectors", "extensions"] as const;
type Group = (typeof groups)[number];
const roles = ["receivers", "processors", "exporters"] as const;

/** A type, and after a slash the name of one of several components of it. */
const idPattern = /^([A-Za-z][0-9A-Za-z_]{0,62})(?:\/[^\p{Z}\p{C}\p{S}]{1,1024})?$/u;

const Components = v.nullish(
  v.record(v.pipe(v.string(), v.regex(idPattern, "must be type, or type/name")), v.unknown()),
  {},
);
const References = v.nullish(v.array(v.string()), []);

const pipelinePattern = /^(?:traces|metrics|logs|profiles)(?:\/[^\p{Z}\p{C}\p{S}]{1,1024})?$/u;

const OtelcolYaml = section({
  ...v.entriesFromList(groups, Components),
  service: section({
    telemetry: v.optional(v.unknown()),
    extensions: References,
    pipelines: v.pipe(
      v.record(
        v.pipe(
          v.string(),
          v.regex(pipelinePattern, "must be traces, metrics, logs or profiles, or one with /name"),
        ),
        section(v.entriesFromList(roles, References)),
      ),
      v.check((pipelines) => Object.keys(pipelines).length > 0, "must have at least one pipeline"),
    ),
  }),
});
type Otelcol = v.InferOutput<typeof OtelcolYaml>;

/** What is wrong with a config, and what may be: a component that nothing uses. */
export interface ConfigFindings {
  errors: ConfigTextError[];
  warnings: ConfigTextError[];
}

/**
 * Checks the sections, the pipelines and their references. Errors name keys and expectations, never values of settings. The first 50 of
 * each kind.
 */
export const checkOtelcolConfig = (parsed: ParsedTree): ConfigFindings => {
  const result = v.safeParse(OtelcolYaml, parsed.tree);
  const { errors, warnings } = result.success
    ? checkReferences(result.output, parsed.errorAt)
    : { errors: result.issues.map((issue) => textErrorOf(issue, parsed)), warnings: [] };
  return {
    errors: errors.slice(0, configErrorsMax),
    warnings: warnings.slice(0, configErrorsMax),
  };
};

/** What refers to a component: a role in a pipeline, or the list of extensions. */
type Role = (typeof roles)[number] | "extensions";

const checkReferences = (config: Otelcol, errorAt: ParsedTree["errorAt"]): ConfigFindings => {
  const errors: ConfigTextError[] = [];
  const roleSets = new Map<string, Set<Role>>();
  const has = (group: Group, id: string) => Object.hasOwn(config[group] ?? {}, id);
  const rolesOf = (group: Group, id: string) =>
    roleSets.getOrInsertComputed(`${group}.${id}`, () => new Set());

  const refer = (role: Role, ids: readonly string[] | null, path: TreePath) => {
    const mayConnect = role === "receivers" || role === "exporters";
    for (const [at, id] of (ids ?? []).entries()) {
      const isConnector = mayConnect && has("connectors", id);
      if (!isConnector && !has(role, id))
        errors.push(errorAt([...path, role, at], `is not defined in ${role}`));
      rolesOf(isConnector ? "connectors" : role, id).add(role);
    }
  };

  const { pipelines, extensions } = config.service;
  refer("extensions", extensions, ["service"]);
  for (const [name, pipeline] of Object.entries(pipelines)) {
    const path = ["service", "pipelines", name];
    for (const role of roles) refer(role, pipeline[role], path);
    errors.push(...faultsOf(pipeline, (at, message) => errorAt([...path, ...at], message, "key")));
  }
  for (const id of Object.keys(config.connectors ?? {})) {
    const fault = connectorFault(
      rolesOf("connectors", id),
      has("receivers", id) || has("exporters", id),
    );
    if (fault !== undefined) errors.push(errorAt(["connectors", id], fault, "key"));
  }
  const warnings = groups.flatMap((group) =>
    Object.keys(config[group] ?? {})
      .filter((id) => rolesOf(group, id).size === 0)
      .map((id) => errorAt([group, id], "is not used", "key")),
  );
  return { errors, warnings };
};

/** Returns what a pipeline lacks, and which processor it names twice. */
const faultsOf = (
  pipeline: Otelcol["service"]["pipelines"][string],
  errorAt: (path: TreePath, message: string) => ConfigTextError,
): ConfigTextError[] => {
  const processors = pipeline.processors ?? [];
  const lacking = (["receivers", "exporters"] as const).filter((role) => !pipeline[role]?.length);
  return [
    ...lacking.map((role) => errorAt([], `must have at least one of ${role}`)),
    ...processors.flatMap((id, at) =>
      processors.indexOf(id) < at ? errorAt(["processors", at], "is in the pipeline twice") : [],
    ),
  ];
};

const connectorFault = (used: ReadonlySet<Role>, isAmbiguous: boolean): string | undefined => {
  if (isAmbiguous) return "has the id of a receiver or an exporter";
  if (used.size !== 1) return undefined;
  return `must also be one of the ${used.has("receivers") ? "exporters" : "receivers"} of a pipeline`;
};
