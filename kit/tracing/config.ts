import * as v from "valibot";
import { isConfidentialUrl } from "../confidential-url.ts";
import { type ConfigFault, type Environment, requireWith, type ValuesOf } from "../env.ts";
import type { Secret } from "../secret.ts";
import { HeadersVariable, TextVariable, WebUrlVariable } from "../variables.ts";

/** Where spans go, and how many traces are recorded. */
export interface TracesConfig {
  url: string;
  headers: Pick<Secret<Readonly<Record<string, string>>>, "reveal"> | null;
  /** The percentage to record of the traces that start in this program. */
  samplePercent: number;
}

const percent = v.pipe(
  TextVariable,
  v.regex(/^\d{1,3}(\.\d{1,4})?$/, "must be a number from 0 to 100"),
  v.transform(Number),
  v.maxValue(100, "must be a number from 0 to 100"),
);

/** The variables of traces, the same for core, web and collector. */
export const tracesVariables = {
  /**
   * OTLP over HTTP: sends [traces](traces.md) there, as `http://localhost:4318/v1/traces`; unset:
   * records none
   */
  SVC_TRACES_URL: v.optional(WebUrlVariable),
  /**
   * headers of these requests, `name=value,name=value`, `%2C` for a comma; needs an https URL, or
   * loopback
   */
  SVC_TRACES_HEADERS: v.optional(HeadersVariable),
  /**
   * of the requests, and in a collector of the frames and batches of lines, that start a trace; 0
   * to 100
   */
  SVC_TRACES_SAMPLE_PERCENT: v.optional(percent, "1"),
};

type TracesValues = ValuesOf<typeof tracesVariables>;

/** Returns the configuration of traces; null without a URL: nothing is recorded. */
export const tracesConfigOf = (values: TracesValues): TracesConfig | null =>
  values.SVC_TRACES_URL === undefined
    ? null
    : {
        url: values.SVC_TRACES_URL,
        headers: values.SVC_TRACES_HEADERS ?? null,
        samplePercent: values.SVC_TRACES_SAMPLE_PERCENT,
      };

/** Adds the faults between these variables. */
export const tracesFaults = (env: Environment, faults: ConfigFault[]): void => {
  const { SVC_TRACES_URL: address, SVC_TRACES_HEADERS: secret } = env;
  requireWith(env, faults, "SVC_TRACES_HEADERS", "SVC_TRACES_URL");
  if (secret && address && !isConfidentialUrl(address))
    faults.push({
      variable: "SVC_TRACES_URL",
      message: "must be https while SVC_TRACES_HEADERS is set",
    });
};
