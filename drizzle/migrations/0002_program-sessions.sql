ALTER TABLE "authorization_code" ADD COLUMN "web_session_id" text;--> statement-breakpoint
ALTER TABLE "authorization_code" ADD COLUMN "web_session_expires_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "device_authorization" ADD COLUMN "address_key" text;--> statement-breakpoint
ALTER TABLE "device_authorization" ADD COLUMN "web_session_id" text;--> statement-breakpoint
ALTER TABLE "device_authorization" ADD COLUMN "web_session_expires_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "operator_session" ADD COLUMN "web_session_id" text;