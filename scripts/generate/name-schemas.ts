import { globSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type * as v from "valibot";
import { convertSchema, type JsonSchema } from "./json-schema.ts";

/** Where the schemas of requests and responses are declared. */
const declaring = ["proto/**/*.ts", "functions/v1/**/*.ts"];

/** Exports that the document knows by the field's word. */
const renamed: Readonly<Record<string, string>> = {
  PolicyView: "EnrollmentPolicy",
  TokenView: "BootstrapToken",
  CertificateIssued: "IssuedCertificate",
};

/** A shorter schema says as much as its name. */
const shortestJson = 60;

/** Returns the exported schemas of the protocol and of the API by their names, as JSON Schema. */
export const namedSchemas = async (): Promise<ReadonlyMap<string, JsonSchema>> => {
  const files = globSync(declaring, { exclude: ["**/*.test.ts", "proto/gen/**"] }).sort();
  const modules = await Promise.all(
    files.map((file) => import(pathToFileURL(resolve(file)).href) as Promise<object>),
  );
  return new Map(
    modules
      .flatMap((module) => Object.entries(module))
      .filter((entry): entry is [string, v.GenericSchema] => isSchema(entry[1]))
      .map(([name, schema]) => [renamed[name] ?? name, convertSchema(schema)] as const)
      // Not in the order of the modules' exports, which a bundler changes: the last of equal schemas gives the name.
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .filter(([, schema]) => JSON.stringify(schema).length > shortestJson),
  );
};

const isSchema = (value: unknown): value is v.GenericSchema =>
  typeof value === "object" && value !== null && Reflect.get(value, "kind") === "schema";
