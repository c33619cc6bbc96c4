import { readFileSync } from "node:fs";
import * as v from "valibot";
import { parse } from "yaml";
import {
  collectorFileForms,
  collectorVariables,
} from "../../collector/commands/create-collector-tracer.ts";
import { coreFileForms, coreVariables } from "../../functions/config/core-config.ts";
import { exportFileForms, exportVariables } from "../../functions/config/export-config.ts";
import { webFileForms, webVariables } from "../../ui/bff/config.ts";
import { markdownTable } from "./markdown.ts";

/** Requires a meaning for each variable, and for nothing else. */
const meaningsOf = (variables: object) =>
  v.strictObject(Object.fromEntries(Object.keys(variables).map((name) => [name, v.string()])));
const Meanings = v.object({
  core: meaningsOf(coreVariables),
  export: meaningsOf(exportVariables),
  web: meaningsOf(webVariables),
  collector: meaningsOf(collectorVariables),
});

const readMeanings = (): v.InferOutput<typeof Meanings> =>
  v.parse(Meanings, parse(readFileSync(new URL("./configuration.yaml", import.meta.url), "utf8")));

const defaultOf = (schema: object): string => {
  if (!("default" in schema)) return "required";
  return typeof schema.default === "string" ? `\`${schema.default}\`` : "unset";
};

const tableOf = (
  variables: object,
  fileForms: readonly string[],
  meanings: Readonly<Record<string, string>>,
): string =>
  markdownTable(
    ["variable", "default", "meaning"],
    Object.entries(variables).map(([name, schema]) => [
      `\`${name}\`${fileForms.includes(name) ? " (`_FILE`)" : ""}`,
      defaultOf(schema),
      meanings[name] ?? "",
    ]),
  );

/** Renders the table of each program's variables from the schema that parses them. */
export const renderConfigurations = (): Readonly<Record<string, string>> => {
  const { core, export: exporter, web, collector } = readMeanings();
  return {
    core: tableOf(coreVariables, coreFileForms, core),
    export: tableOf(exportVariables, exportFileForms, exporter),
    web: tableOf(webVariables, webFileForms, web),
    collector: tableOf(collectorVariables, collectorFileForms, collector),
  };
};
