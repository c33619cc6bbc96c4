import * as v from "valibot";
import { Identifier, Sha256Hex, Timestamp } from "../values.ts";
import { ProofFields } from "./proof.ts";

/** Body of `POST /v1/collector/config/desired`. Unknown fields are ignored, but the proof covers them. */
export const ConfigDesiredRequest = v.object({
  ...ProofFields,
  current_config_id: v.optional(Identifier(64)),
});

/** A parsed desired-config request. */
export type ConfigDesiredRequest = v.InferOutput<typeof ConfigDesiredRequest>;

/** Response: the assigned config, with its published bytes unless the collector has them already (`unchanged`). */
export const ConfigDesiredResponse = v.object({
  assignment: v.nullable(
    v.object({
      config_id: v.string(),
      config_hash: Sha256Hex,
      assigned_at: Timestamp,
      unchanged: v.boolean(),
      yaml: v.optional(v.string()),
    }),
  ),
});

/** The response on the wire. */
export type ConfigDesiredResponse = v.InferOutput<typeof ConfigDesiredResponse>;
