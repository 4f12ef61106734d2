-- Says that a process has read messages. Changes a row, so that its commit takes to the disk whatever was committed
-- before: InnoDB shows a commit before it is there, if there is no binary log. ? stream, ? process.
UPDATE semel_outbox_processes SET batches = batches + 1 WHERE stream = ? AND process = ?
