CREATE TABLE "used_logout_token" (
	"jti" text PRIMARY KEY NOT NULL,
	"provider_session_id" text,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "web_session" (
	"id" text PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"provider_session_id" text,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "web_session" ADD CONSTRAINT "web_session_user_id_person_user_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."person"("user_id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "used_logout_token_provider_session" ON "used_logout_token" USING btree ("provider_session_id");--> statement-breakpoint
CREATE INDEX "used_logout_token_expires" ON "used_logout_token" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "web_session_provider_session" ON "web_session" USING btree ("provider_session_id");--> statement-breakpoint
CREATE INDEX "web_session_user" ON "web_session" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "web_session_expires" ON "web_session" USING btree ("expires_at");