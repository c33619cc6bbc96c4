CREATE TABLE "audit_chain" (
	"seq" bigint PRIMARY KEY NOT NULL,
	"event_id" uuid NOT NULL,
	"prev_hash" "bytea" NOT NULL,
	"hash" "bytea" NOT NULL,
	CONSTRAINT "audit_chain_event" UNIQUE("event_id")
);
--> statement-breakpoint
CREATE TABLE "audit_event" (
	"id" uuid PRIMARY KEY NOT NULL,
	"occurred_at" timestamp (3) with time zone NOT NULL,
	"actor_type" text NOT NULL,
	"actor_id" text NOT NULL,
	"actor_display" text NOT NULL,
	"action" text NOT NULL,
	"target_type" text NOT NULL,
	"target_id" text NOT NULL,
	"outcome" text NOT NULL,
	"reason_code" text,
	"reason" text,
	"remote_addr" text,
	"request_id" text,
	"details" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "audit_pending" (
	"event_id" uuid PRIMARY KEY NOT NULL
);
--> statement-breakpoint
CREATE TABLE "audit_verification" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"seq" bigint NOT NULL,
	"hash" "bytea" NOT NULL,
	"checked_at" timestamp (3) with time zone NOT NULL,
	"checked_since" timestamp (3) with time zone NOT NULL,
	"pass_seq" bigint NOT NULL,
	"pass_hash" "bytea" NOT NULL,
	"pass_started_at" timestamp (3) with time zone NOT NULL,
	"fault_kind" text,
	"fault_seq" bigint,
	CONSTRAINT "audit_verification_singleton" CHECK ("audit_verification"."singleton")
);
--> statement-breakpoint
CREATE TABLE "certificate" (
	"id" uuid PRIMARY KEY NOT NULL,
	"identity_id" uuid NOT NULL,
	"predecessor_id" uuid,
	"token_id" uuid,
	"status" text NOT NULL,
	"serial_number" text NOT NULL,
	"fingerprint_sha256" "bytea" NOT NULL,
	"spki_sha256" "bytea" NOT NULL,
	"certificate_pem" text NOT NULL,
	"chain_pem" text NOT NULL,
	"not_before" timestamp (3) with time zone NOT NULL,
	"not_after" timestamp (3) with time zone NOT NULL,
	"renew_after" timestamp (3) with time zone NOT NULL,
	"issued_at" timestamp (3) with time zone NOT NULL,
	"first_used_at" timestamp (3) with time zone,
	"replaced_at" timestamp (3) with time zone,
	"revoked_at" timestamp (3) with time zone,
	CONSTRAINT "certificate_fingerprint" UNIQUE("fingerprint_sha256")
);
--> statement-breakpoint
CREATE TABLE "collector_identity" (
	"id" uuid PRIMARY KEY NOT NULL,
	"identity" text NOT NULL,
	"device_id" text NOT NULL,
	"policy_id" uuid NOT NULL,
	"token_id" uuid NOT NULL,
	"hostname" text,
	"platform" text NOT NULL,
	"collector_version" text NOT NULL,
	"enrolled_at" timestamp (3) with time zone NOT NULL,
	"revoked_at" timestamp (3) with time zone,
	"last_auth_failure_at" timestamp (3) with time zone,
	"last_auth_failure_reason" text,
	"reported_labels" jsonb,
	"label_set_id" integer DEFAULT 0 NOT NULL,
	CONSTRAINT "collector_identity_identity" UNIQUE("identity")
);
--> statement-breakpoint
CREATE TABLE "proof_use" (
	"certificate_id" uuid NOT NULL,
	"purpose" text NOT NULL,
	"last_sent_at" timestamp (3) with time zone NOT NULL,
	"recent_at" timestamp (3) with time zone[] NOT NULL,
	CONSTRAINT "proof_use_certificate_id_purpose_pk" PRIMARY KEY("certificate_id","purpose")
);
--> statement-breakpoint
CREATE TABLE "chat_message" (
	"id" uuid PRIMARY KEY NOT NULL,
	"session_id" uuid NOT NULL,
	"position" integer NOT NULL,
	"role" text NOT NULL,
	"status" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"parts" text NOT NULL,
	"provider" text,
	"model" text,
	"tail" text DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE TABLE "chat_receipt" (
	"session_id" uuid NOT NULL,
	"seq" integer NOT NULL,
	"receipt" text NOT NULL,
	"payload" text NOT NULL,
	CONSTRAINT "chat_receipt_session_id_seq_pk" PRIMARY KEY("session_id","seq")
);
--> statement-breakpoint
CREATE TABLE "chat_receipt_key" (
	"key_id" text PRIMARY KEY NOT NULL,
	"x" text NOT NULL,
	"ephemeral" boolean NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "chat_session" (
	"id" uuid PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"title" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	"message_count" integer DEFAULT 0 NOT NULL,
	"receipt_count" integer DEFAULT 0 NOT NULL,
	"last_receipt_sha256" text,
	"turn_id" uuid,
	"turn_expires_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "collector_config" (
	"id" uuid PRIMARY KEY NOT NULL,
	"name" text,
	"yaml" text NOT NULL,
	"config_hash" text NOT NULL,
	"size_bytes" integer NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"created_by" uuid NOT NULL
);
--> statement-breakpoint
CREATE TABLE "config_assignment" (
	"id" uuid PRIMARY KEY NOT NULL,
	"identity_id" uuid NOT NULL,
	"config_id" uuid NOT NULL,
	"assigned_at" timestamp (3) with time zone NOT NULL,
	"assigned_by" uuid NOT NULL,
	"ended_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "deployment" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"tenant_id" uuid NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "deployment_singleton" CHECK ("deployment"."singleton")
);
--> statement-breakpoint
CREATE TABLE "bootstrap_token" (
	"id" uuid PRIMARY KEY NOT NULL,
	"policy_id" uuid NOT NULL,
	"token_sha256" "bytea" NOT NULL,
	"token_prefix" text NOT NULL,
	"description" text,
	"allowed_source_cidrs" text[] NOT NULL,
	"bound_device_id" text,
	"max_uses" bigint NOT NULL,
	"use_count" bigint DEFAULT 0 NOT NULL,
	"last_used_at" timestamp (3) with time zone,
	"last_used_address" text,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"revoked_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone NOT NULL,
	"created_by" uuid NOT NULL,
	CONSTRAINT "bootstrap_token_sha256" UNIQUE("token_sha256")
);
--> statement-breakpoint
CREATE TABLE "enrollment_failure" (
	"id" uuid PRIMARY KEY NOT NULL,
	"address_key" text NOT NULL,
	"reason" text NOT NULL,
	"occurred_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "enrollment_policy" (
	"id" uuid PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"description" text,
	"allowed_identity_prefixes" text[] NOT NULL,
	"certificate_ttl_seconds" integer NOT NULL,
	"allowed_platforms" text[] NOT NULL,
	"max_enrollments" bigint NOT NULL,
	"max_enrollments_per_hour" bigint NOT NULL,
	"allowed_source_cidrs" text[] NOT NULL,
	"reenrollment" text NOT NULL,
	"enrollment_count" bigint DEFAULT 0 NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"created_by" uuid NOT NULL,
	"frozen_at" timestamp (3) with time zone,
	"labels" jsonb DEFAULT '{}'::jsonb NOT NULL,
	CONSTRAINT "enrollment_policy_name" UNIQUE("name")
);
--> statement-breakpoint
CREATE TABLE "enrollment_refusal" (
	"address_key" text NOT NULL,
	"minute_started_at" timestamp (3) with time zone NOT NULL,
	"reason" text NOT NULL,
	"refusals" bigint NOT NULL,
	"last_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "enrollment_refusal_address_key_minute_started_at_reason_pk" PRIMARY KEY("address_key","minute_started_at","reason")
);
--> statement-breakpoint
CREATE TABLE "enrollment_reservation" (
	"id" uuid PRIMARY KEY NOT NULL,
	"policy_id" uuid NOT NULL,
	"token_id" uuid NOT NULL,
	"identity" text NOT NULL,
	"spki_sha256" "bytea" NOT NULL,
	"first_enrollment" boolean NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"serial_number" text DEFAULT '' NOT NULL,
	CONSTRAINT "enrollment_reservation_identity" UNIQUE("identity")
);
--> statement-breakpoint
CREATE TABLE "export_dead_letter" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "export_dead_letter_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"name" text NOT NULL,
	"host_id" text NOT NULL,
	"queue_id" "bytea" NOT NULL,
	"sequence" bigint NOT NULL,
	"kind" text NOT NULL,
	"observed_at" timestamp (3) with time zone,
	"received_at" timestamp (3) with time zone NOT NULL,
	"source" text NOT NULL,
	"attributes" text NOT NULL,
	"payload" "bytea" NOT NULL,
	"reason" text NOT NULL,
	"failed_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "export_position" (
	"name" text PRIMARY KEY NOT NULL,
	"position" bigint NOT NULL,
	"stream" text,
	"stream_pending" bigint,
	"position_at" timestamp (3) with time zone NOT NULL,
	"owner" text,
	"lease_until" timestamp (3) with time zone NOT NULL,
	"epoch" integer NOT NULL,
	"exported" bigint NOT NULL,
	"rejected_items" bigint NOT NULL,
	"lost" bigint NOT NULL,
	"last_error" text,
	"updated_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "collector_health" (
	"identity_id" uuid PRIMARY KEY NOT NULL,
	"certificate_id" uuid NOT NULL,
	"last_heartbeat_at" timestamp (3) with time zone NOT NULL,
	"boot_id" text NOT NULL,
	"previous_boot_id" text,
	"previous_boot_at" timestamp (3) with time zone,
	"collector_version" text NOT NULL,
	"collector_commit" text NOT NULL,
	"hostname" text NOT NULL,
	"platform" text NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL,
	"config_valid" boolean NOT NULL,
	"config_errors" text[] NOT NULL,
	"running_config_hash" text,
	"desired_config_hash" text,
	"last_known_good_config_hash" text,
	"apply_desired_config" boolean,
	"queue_records" bigint NOT NULL,
	"queue_bytes" bigint NOT NULL,
	"queue_bytes_max" bigint NOT NULL,
	"queue_oldest_record_age_seconds" bigint,
	"dropped_records_total" bigint NOT NULL,
	"dead_letters" bigint DEFAULT 0 NOT NULL,
	"queue_forks" bigint DEFAULT 0 NOT NULL,
	"dropped_since_previous" boolean NOT NULL,
	"queue_at_risk" boolean NOT NULL,
	"forwarder_connected" boolean NOT NULL,
	"forwarder_last_ack_at" timestamp (3) with time zone,
	"forwarder_last_error" text,
	"renewal_status" text NOT NULL,
	"renewal_last_attempt_at" timestamp (3) with time zone,
	"renewal_next_attempt_at" timestamp (3) with time zone,
	"renewal_last_error" text,
	"config_invalid_since" timestamp (3) with time zone,
	"queue_at_risk_since" timestamp (3) with time zone,
	"renewal_failed_since" timestamp (3) with time zone,
	"version_since" timestamp (3) with time zone,
	"running_config_since" timestamp (3) with time zone,
	"recovered_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "fleet_host" (
	"identity_id" uuid PRIMARY KEY NOT NULL,
	"certificate_id" uuid NOT NULL,
	"enrolled_at" timestamp (3) with time zone NOT NULL,
	"last_heartbeat_at" timestamp (3) with time zone NOT NULL,
	"last_envelope_at" timestamp (3) with time zone NOT NULL,
	"certificate_not_after" timestamp (3) with time zone NOT NULL,
	"revoked_from" timestamp (3) with time zone NOT NULL,
	"expired_from" timestamp (3) with time zone NOT NULL,
	"expiring_from" timestamp (3) with time zone NOT NULL,
	"config_assigned_at" timestamp (3) with time zone NOT NULL,
	"running_config_since" timestamp (3) with time zone NOT NULL,
	"condition_since" timestamp (3) with time zone NOT NULL,
	"version_since" timestamp (3) with time zone NOT NULL,
	"recovered_at" timestamp (3) with time zone NOT NULL,
	"last_auth_failure_at" timestamp (3) with time zone NOT NULL,
	"queue_bytes" bigint NOT NULL,
	"queue_bytes_max" bigint NOT NULL,
	"lost_records" bigint NOT NULL,
	"label_set_id" integer NOT NULL,
	"renewal_failed" boolean NOT NULL,
	"config_invalid" boolean NOT NULL,
	"queue_at_risk" boolean NOT NULL,
	"forwarder_connected" boolean NOT NULL,
	"drift" text COLLATE "C" NOT NULL,
	"version" text COLLATE "C" NOT NULL,
	"platform" text COLLATE "C" NOT NULL,
	"identity" text COLLATE "C" NOT NULL,
	"device_id" text COLLATE "C" NOT NULL,
	"hostname" text COLLATE "C" NOT NULL,
	"search" text COLLATE "C" NOT NULL,
	"successor_id" uuid,
	"desired_config" "bytea" NOT NULL,
	"running_config" "bytea" NOT NULL,
	"last_known_good_config" "bytea" NOT NULL
);
--> statement-breakpoint
CREATE TABLE "ingest_cursor" (
	"host_id" text NOT NULL,
	"queue_id" "bytea" NOT NULL,
	"cursor" bigint NOT NULL,
	"session_id" "bytea",
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "ingest_cursor_host_id_queue_id_pk" PRIMARY KEY("host_id","queue_id")
);
--> statement-breakpoint
CREATE TABLE "ingest_gap" (
	"host_id" text PRIMARY KEY NOT NULL,
	"ranges" bigint NOT NULL,
	"records_max" bigint NOT NULL,
	"last_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "ingest_host" (
	"host_id" text PRIMARY KEY NOT NULL,
	"last_envelope_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "ingest_hour" (
	"host_id" text NOT NULL,
	"kind" text NOT NULL,
	"hour" timestamp (3) with time zone NOT NULL,
	"envelopes" bigint NOT NULL,
	"payload_bytes" bigint NOT NULL,
	CONSTRAINT "ingest_hour_host_id_hour_kind_pk" PRIMARY KEY("host_id","hour","kind")
);
--> statement-breakpoint
CREATE TABLE "label_set" (
	"id" integer PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY (sequence name "label_set_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 2147483647 START WITH 1 CACHE 1),
	"sha256" "bytea" NOT NULL,
	"labels" jsonb NOT NULL,
	CONSTRAINT "label_set_sha256" UNIQUE("sha256"),
	CONSTRAINT "label_set_none" CHECK (("label_set"."id" = 0) = ("label_set"."labels" = '{}'::jsonb))
);
--> statement-breakpoint
CREATE TABLE "authentication_identity" (
	"tenant_id" uuid NOT NULL,
	"subject" text NOT NULL,
	"user_id" uuid NOT NULL,
	CONSTRAINT "authentication_identity_tenant_id_subject_pk" PRIMARY KEY("tenant_id","subject")
);
--> statement-breakpoint
CREATE TABLE "directory_sync" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"syncs" integer NOT NULL,
	"finished_at" timestamp (3) with time zone NOT NULL,
	"outcome" text NOT NULL,
	"reason_code" text,
	"synced_at" timestamp (3) with time zone,
	"pushed_at" timestamp (3) with time zone,
	"failures" integer NOT NULL,
	"missing_groups" text[] NOT NULL,
	CONSTRAINT "directory_sync_singleton" CHECK ("directory_sync"."singleton")
);
--> statement-breakpoint
CREATE TABLE "person" (
	"user_id" uuid PRIMARY KEY NOT NULL,
	"primary_email" text NOT NULL,
	"display_name" text DEFAULT '' NOT NULL,
	"status" text NOT NULL,
	"scopes" text[] NOT NULL,
	"synced_at" timestamp (3) with time zone NOT NULL,
	"missed_syncs" integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "authorization_code" (
	"code_sha256" "bytea" PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"code_challenge" text NOT NULL,
	"redirect_uri" text NOT NULL,
	"client_name" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"used_at" timestamp (3) with time zone,
	"session_id" uuid
);
--> statement-breakpoint
CREATE TABLE "device_authorization" (
	"device_code_sha256" "bytea" PRIMARY KEY NOT NULL,
	"user_code" text NOT NULL,
	"client_name" text NOT NULL,
	"remote_addr" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"status" text NOT NULL,
	"user_id" uuid,
	"interval_seconds" integer NOT NULL,
	"last_polled_at" timestamp (3) with time zone,
	CONSTRAINT "device_authorization_user_code" UNIQUE("user_code")
);
--> statement-breakpoint
CREATE TABLE "ended_web_session" (
	"id" text PRIMARY KEY NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "operator_session" (
	"id" uuid PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"flow" text NOT NULL,
	"client_name" text NOT NULL,
	"remote_addr" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"revoked_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "rollout" (
	"id" uuid PRIMARY KEY NOT NULL,
	"config_id" uuid NOT NULL,
	"filter" text NOT NULL,
	"state" text NOT NULL,
	"wave" integer NOT NULL,
	"max_failed_percent" double precision NOT NULL,
	"conditions" text[] NOT NULL,
	"on_breach" text NOT NULL,
	"gate_from" timestamp (3) with time zone NOT NULL,
	"reason_code" text,
	"reason" text,
	"breach" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"created_by" uuid NOT NULL,
	"created_by_workload" boolean NOT NULL,
	"created_by_name" text NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	"ended_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "rollout_target" (
	"rollout_id" uuid NOT NULL,
	"place" integer NOT NULL,
	"identity_id" uuid NOT NULL,
	"wave" integer NOT NULL,
	"status" text NOT NULL,
	"reason" text,
	"assignment_id" uuid,
	"previous_config_id" uuid,
	"assigned_at" timestamp (3) with time zone,
	"applied_at" timestamp (3) with time zone,
	"failed_at" timestamp (3) with time zone,
	"condition" text,
	"condition_began_at" timestamp (3) with time zone,
	"condition_detail" text,
	"failed_version" text,
	"reverted_at" timestamp (3) with time zone,
	CONSTRAINT "rollout_target_rollout_id_place_pk" PRIMARY KEY("rollout_id","place")
);
--> statement-breakpoint
CREATE TABLE "rollout_wave" (
	"rollout_id" uuid NOT NULL,
	"number" integer NOT NULL,
	"percent" double precision,
	"count" integer,
	"soak_seconds" integer NOT NULL,
	"targets" integer NOT NULL,
	"pending" integer NOT NULL,
	"assigned" integer NOT NULL,
	"applied" integer NOT NULL,
	"failed" integer NOT NULL,
	"skipped" integer NOT NULL,
	"reverted" integer NOT NULL,
	"started_at" timestamp (3) with time zone,
	"soak_until" timestamp (3) with time zone,
	"completed_at" timestamp (3) with time zone,
	CONSTRAINT "rollout_wave_rollout_id_number_pk" PRIMARY KEY("rollout_id","number")
);
--> statement-breakpoint
CREATE TABLE "scim_group" (
	"id" uuid PRIMARY KEY NOT NULL,
	"display_name" text NOT NULL,
	"display_name_key" text NOT NULL,
	"external_id" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "scim_group_display_name_key" UNIQUE("display_name_key")
);
--> statement-breakpoint
CREATE TABLE "scim_member" (
	"group_id" uuid NOT NULL,
	"user_id" uuid NOT NULL,
	CONSTRAINT "scim_member_group_id_user_id_pk" PRIMARY KEY("group_id","user_id")
);
--> statement-breakpoint
CREATE TABLE "scim_user" (
	"id" uuid PRIMARY KEY NOT NULL,
	"user_name" text NOT NULL,
	"user_name_key" text NOT NULL,
	"external_id" text,
	"active" boolean NOT NULL,
	"display_name" text,
	"name" jsonb NOT NULL,
	"emails" jsonb NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "scim_user_user_name_key" UNIQUE("user_name_key"),
	CONSTRAINT "scim_user_external_id" UNIQUE("external_id")
);
--> statement-breakpoint
CREATE TABLE "workload" (
	"id" uuid PRIMARY KEY NOT NULL,
	"issuer" text NOT NULL,
	"subject" text NOT NULL,
	"first_seen_at" timestamp (3) with time zone NOT NULL,
	"last_seen_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "workload_subject" UNIQUE("issuer","subject")
);
--> statement-breakpoint
ALTER TABLE "certificate" ADD CONSTRAINT "certificate_identity_id_collector_identity_id_fk" FOREIGN KEY ("identity_id") REFERENCES "public"."collector_identity"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "certificate" ADD CONSTRAINT "certificate_predecessor_id_certificate_id_fk" FOREIGN KEY ("predecessor_id") REFERENCES "public"."certificate"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "certificate" ADD CONSTRAINT "certificate_token_id_bootstrap_token_id_fk" FOREIGN KEY ("token_id") REFERENCES "public"."bootstrap_token"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "collector_identity" ADD CONSTRAINT "collector_identity_policy_id_enrollment_policy_id_fk" FOREIGN KEY ("policy_id") REFERENCES "public"."enrollment_policy"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "collector_identity" ADD CONSTRAINT "collector_identity_token_id_bootstrap_token_id_fk" FOREIGN KEY ("token_id") REFERENCES "public"."bootstrap_token"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "proof_use" ADD CONSTRAINT "proof_use_certificate_id_certificate_id_fk" FOREIGN KEY ("certificate_id") REFERENCES "public"."certificate"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "chat_message" ADD CONSTRAINT "chat_message_session_id_chat_session_id_fk" FOREIGN KEY ("session_id") REFERENCES "public"."chat_session"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "chat_receipt" ADD CONSTRAINT "chat_receipt_session_id_chat_session_id_fk" FOREIGN KEY ("session_id") REFERENCES "public"."chat_session"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "chat_session" ADD CONSTRAINT "chat_session_user_id_person_user_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."person"("user_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "config_assignment" ADD CONSTRAINT "config_assignment_identity_id_collector_identity_id_fk" FOREIGN KEY ("identity_id") REFERENCES "public"."collector_identity"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "config_assignment" ADD CONSTRAINT "config_assignment_config_id_collector_config_id_fk" FOREIGN KEY ("config_id") REFERENCES "public"."collector_config"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "bootstrap_token" ADD CONSTRAINT "bootstrap_token_policy_id_enrollment_policy_id_fk" FOREIGN KEY ("policy_id") REFERENCES "public"."enrollment_policy"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "enrollment_reservation" ADD CONSTRAINT "enrollment_reservation_policy_id_enrollment_policy_id_fk" FOREIGN KEY ("policy_id") REFERENCES "public"."enrollment_policy"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "enrollment_reservation" ADD CONSTRAINT "enrollment_reservation_token_id_bootstrap_token_id_fk" FOREIGN KEY ("token_id") REFERENCES "public"."bootstrap_token"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "collector_health" ADD CONSTRAINT "collector_health_identity_id_collector_identity_id_fk" FOREIGN KEY ("identity_id") REFERENCES "public"."collector_identity"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "collector_health" ADD CONSTRAINT "collector_health_certificate_id_certificate_id_fk" FOREIGN KEY ("certificate_id") REFERENCES "public"."certificate"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "authentication_identity" ADD CONSTRAINT "authentication_identity_user_id_person_user_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."person"("user_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "authorization_code" ADD CONSTRAINT "authorization_code_user_id_person_user_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."person"("user_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "device_authorization" ADD CONSTRAINT "device_authorization_user_id_person_user_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."person"("user_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "operator_session" ADD CONSTRAINT "operator_session_user_id_person_user_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."person"("user_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "rollout" ADD CONSTRAINT "rollout_config_id_collector_config_id_fk" FOREIGN KEY ("config_id") REFERENCES "public"."collector_config"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "rollout_wave" ADD CONSTRAINT "rollout_wave_rollout_id_rollout_id_fk" FOREIGN KEY ("rollout_id") REFERENCES "public"."rollout"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scim_member" ADD CONSTRAINT "scim_member_group_id_scim_group_id_fk" FOREIGN KEY ("group_id") REFERENCES "public"."scim_group"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "scim_member" ADD CONSTRAINT "scim_member_user_id_scim_user_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."scim_user"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "audit_event_time" ON "audit_event" USING btree ("occurred_at","id");--> statement-breakpoint
CREATE INDEX "audit_event_target" ON "audit_event" USING btree ("target_id","id");--> statement-breakpoint
CREATE INDEX "audit_event_action" ON "audit_event" USING btree ("action","id");--> statement-breakpoint
CREATE INDEX "audit_event_actor" ON "audit_event" USING btree ("actor_id","action","id");--> statement-breakpoint
CREATE INDEX "audit_event_actor_display" ON "audit_event" USING btree ("actor_display","action","id");--> statement-breakpoint
CREATE INDEX "audit_event_failure" ON "audit_event" USING btree ("id") WHERE "audit_event"."outcome" = 'failure';--> statement-breakpoint
CREATE INDEX "certificate_identity" ON "certificate" USING btree ("identity_id","issued_at");--> statement-breakpoint
CREATE INDEX "certificate_token_key" ON "certificate" USING btree ("token_id","spki_sha256");--> statement-breakpoint
CREATE UNIQUE INDEX "certificate_one_successor" ON "certificate" USING btree ("predecessor_id") WHERE "certificate"."status" = 'active';--> statement-breakpoint
CREATE INDEX "collector_identity_policy" ON "collector_identity" USING btree ("policy_id","enrolled_at");--> statement-breakpoint
CREATE INDEX "collector_identity_enrolled" ON "collector_identity" USING btree ("enrolled_at");--> statement-breakpoint
CREATE UNIQUE INDEX "chat_message_position" ON "chat_message" USING btree ("session_id","position");--> statement-breakpoint
CREATE INDEX "chat_session_person" ON "chat_session" USING btree ("user_id","updated_at","id");--> statement-breakpoint
CREATE INDEX "chat_session_turn" ON "chat_session" USING btree ("turn_expires_at") WHERE "chat_session"."turn_id" is not null;--> statement-breakpoint
CREATE INDEX "collector_config_hash" ON "collector_config" USING btree ("config_hash","created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "config_assignment_current" ON "config_assignment" USING btree ("identity_id") WHERE "config_assignment"."ended_at" is null;--> statement-breakpoint
CREATE INDEX "config_assignment_identity" ON "config_assignment" USING btree ("identity_id","assigned_at");--> statement-breakpoint
CREATE INDEX "config_assignment_config" ON "config_assignment" USING btree ("config_id","id");--> statement-breakpoint
CREATE INDEX "bootstrap_token_policy" ON "bootstrap_token" USING btree ("policy_id");--> statement-breakpoint
CREATE INDEX "enrollment_failure_address" ON "enrollment_failure" USING btree ("address_key","occurred_at");--> statement-breakpoint
CREATE INDEX "enrollment_refusal_minute" ON "enrollment_refusal" USING btree ("minute_started_at");--> statement-breakpoint
CREATE INDEX "enrollment_reservation_policy" ON "enrollment_reservation" USING btree ("policy_id");--> statement-breakpoint
CREATE INDEX "export_dead_letter_name" ON "export_dead_letter" USING btree ("name","id");--> statement-breakpoint
CREATE UNIQUE INDEX "fleet_host_identity" ON "fleet_host" USING btree ("identity");--> statement-breakpoint
CREATE INDEX "fleet_host_certificate" ON "fleet_host" USING btree ("certificate_not_after","identity_id");--> statement-breakpoint
CREATE INDEX "fleet_host_troubled" ON "fleet_host" USING btree ((case when renewal_failed or config_invalid or queue_at_risk then '-infinity'::timestamptz
  else least(revoked_from, expired_from, expiring_from) end));--> statement-breakpoint
CREATE INDEX "fleet_host_version" ON "fleet_host" USING btree ("version");--> statement-breakpoint
CREATE INDEX "fleet_host_platform" ON "fleet_host" USING btree ("platform");--> statement-breakpoint
CREATE INDEX "fleet_host_label_set" ON "fleet_host" USING btree ("label_set_id");--> statement-breakpoint
CREATE INDEX "label_set_labels" ON "label_set" USING gin ("labels" jsonb_path_ops);--> statement-breakpoint
CREATE UNIQUE INDEX "authentication_identity_person" ON "authentication_identity" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "person_email" ON "person" USING btree ("primary_email");--> statement-breakpoint
CREATE INDEX "authorization_code_created" ON "authorization_code" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "device_authorization_created" ON "device_authorization" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "ended_web_session_expires" ON "ended_web_session" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "operator_session_user" ON "operator_session" USING btree ("user_id","id");--> statement-breakpoint
CREATE INDEX "rollout_config" ON "rollout" USING btree ("config_id","id");--> statement-breakpoint
CREATE INDEX "rollout_state" ON "rollout" USING btree ("state","id");--> statement-breakpoint
CREATE INDEX "rollout_open" ON "rollout" USING btree ("id") WHERE "rollout"."ended_at" is null;--> statement-breakpoint
CREATE UNIQUE INDEX "rollout_target_identity" ON "rollout_target" USING btree ("identity_id","rollout_id");--> statement-breakpoint
CREATE INDEX "rollout_target_status" ON "rollout_target" USING btree ("rollout_id","status","wave","place");--> statement-breakpoint
CREATE INDEX "scim_member_user" ON "scim_member" USING btree ("user_id");