export const TEXT_STYLES: Record<string, string> = { COMPLETED: "good", FAILED: "bad", RUNNING: "live", QUEUED: "live", PENDING_OCR: "live", CANCELLED: "" };
