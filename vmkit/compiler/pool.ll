; A pool of threads that share the work of kernels, one for the process.
;
; A kernel that shares its work calls what lies in its library's __TVMBackendParallelLaunch, with a function of (task,
; environment, data) and the data. Here that is @launch: it puts the work down as a job, wakes threads that sleep, and
; does tasks itself until none is left. Each task is done by whoever comes first, so the caller waits for nobody who has
; not begun: where other processes have the other cores, it does all of the work. A thread tries the task of its own
; number first, so that it finds in its cache what it left there.
;
; What begins with a dollar is filled in for a target.

$layout

; Who may come, and who is there: bit 62 is set while threads may come, bits 32 to 61 count those that still may, bits
; 0 to 31 those inside. Then: whether the place is in use; whether a task failed; the kernel's function and data; how many
; tasks there are; the first error; by task, whether somebody has taken it. Multiples of a cache line.
%job = type { i64, i32, i32, ptr, ptr, i32, i32, ptr, [16 x i8], [512 x i8] }
%environment = type { ptr, i32 }

@jobs = internal global [64 x %job] zeroinitializer, align 64
@epoch = internal global i64 0, align 64     ; counts jobs
@sleepers = internal global i32 0, align 64  ; threads that sleep and were not woken; changed under @mutex
@wakes = internal global i32 0, align 4      ; threads that were woken and have not seen it; under @mutex
@top = internal global i32 0, align 4        ; places that were ever in use
@limit = internal global ptr null, align 8   ; returns how many threads the calling thread may use
@rounds = internal global i32 15000, align 4 ; of looks for a job, after which a thread sleeps: about 30 ms
@mutex = internal global [128 x i8] zeroinitializer, align 64
@condition = internal global [128 x i8] zeroinitializer, align 64
@kind = private constant [13 x i8] c"RuntimeError\00"
@message = private constant [27 x i8] c"a kernel's task has failed\00"

; What kernels call. TVM fills it in when it loads the library, and whoever has a pool after that.
@__TVMBackendParallelLaunch = weak global ptr null, align 8

@table = internal constant [6 x ptr] [ptr @launch, ptr @start, ptr @reset, ptr @limit, ptr @rounds,
                                      ptr @__TVMBackendParallelLaunch]

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @sched_yield()
declare i32 @llvm.smin.i32(i32, i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @TVMFFIErrorMoveFromRaised(ptr)
declare void @TVMFFIErrorSetRaised(ptr)
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
declare i32 @TVMFFIObjectDecRef(ptr)

; The packed function by which a process finds all this: returns the address of @table.
define i32 @__tvm_ffi_vmkit_pool(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  %value = getelementptr i8, ptr %result, i64 8
  store i64 1, ptr %result                      ; an integer
  %address = ptrtoint ptr @table to i64
  store i64 %address, ptr %value
  ret i32 0
}

; Make everything as at the start of a process. Nobody may be in here: for a process just forked, and the first time.
define internal void @reset() {
  call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  call i32 @pthread_cond_init(ptr @condition, ptr null)
  call void @llvm.memset.p0.i64(ptr @jobs, i8 0, i64 ptrtoint (ptr getelementptr (%job, ptr null, i32 64) to i64), i1 false)
  store i64 0, ptr @epoch
  store i32 0, ptr @sleepers
  store i32 0, ptr @wakes
  store i32 0, ptr @top
  ret void
}

; Start a thread of the pool, of a number from 1 on; return 0, or the system's error.
define internal i32 @start(i32 %number) {
  %place = alloca ptr
  %wide = zext i32 %number to i64
  %argument = inttoptr i64 %wide to ptr
  %error = call i32 @pthread_create(ptr %place, ptr null, ptr @worker, ptr %argument)
  %failed = icmp ne i32 %error, 0
  br i1 %failed, label %done, label %made
made:
  %thread = load ptr, ptr %place
  call i32 @pthread_detach(ptr %thread)
  br label %done
done:
  ret i32 %error
}

; Do tasks of a job that nobody has taken, first the one of a number, until there are none.
define internal void @work(ptr %job, i32 %first) {
entry:
  %environment = alloca %environment
  %kernel.at = getelementptr %job, ptr %job, i32 0, i32 3
  %data.at = getelementptr %job, ptr %job, i32 0, i32 4
  %tasks.at = getelementptr %job, ptr %job, i32 0, i32 5
  %kernel = load ptr, ptr %kernel.at
  %data = load ptr, ptr %data.at
  %tasks = load i32, ptr %tasks.at
  %count.at = getelementptr %environment, ptr %environment, i32 0, i32 1
  store ptr null, ptr %environment
  store i32 %tasks, ptr %count.at
  br label %look
look:
  %step = phi i32 [ 0, %entry ], [ %step.next, %next ]
  %sum = add i32 %first, %step
  %past = icmp uge i32 %sum, %tasks
  %wrapped = sub i32 %sum, %tasks
  %task = select i1 %past, i32 %wrapped, i32 %sum
  %flag = getelementptr %job, ptr %job, i32 0, i32 9, i32 %task
  %seen = load atomic i8, ptr %flag monotonic, align 1
  %free = icmp eq i8 %seen, 0
  br i1 %free, label %take, label %next
take:
  %before = atomicrmw xchg ptr %flag, i8 1 monotonic
  %mine = icmp eq i8 %before, 0
  br i1 %mine, label %run, label %next
run:
  %status = call i32 %kernel(i32 %task, ptr %environment, ptr %data)
  %well = icmp eq i32 %status, 0
  br i1 %well, label %next, label %failed
failed:
  call void @keep_error(ptr %job)
  br label %next
next:
  %step.next = add i32 %step, 1
  %more = icmp ult i32 %step.next, %tasks
  br i1 %more, label %look, label %done
done:
  ret void
}

; Keep this thread's error for the thread that called the kernel, if it is the job's first.
define internal void @keep_error(ptr %job) {
  %place = alloca ptr
  store ptr null, ptr %place
  call void @TVMFFIErrorMoveFromRaised(ptr %place)
  %error = load ptr, ptr %place
  %failed.at = getelementptr %job, ptr %job, i32 0, i32 2
  store atomic i32 1, ptr %failed.at monotonic, align 4
  %said = icmp ne ptr %error, null
  br i1 %said, label %keep, label %done
keep:
  %error.at = getelementptr %job, ptr %job, i32 0, i32 7
  %exchange = cmpxchg ptr %error.at, ptr null, ptr %error acq_rel monotonic
  %kept = extractvalue { ptr, i1 } %exchange, 1
  br i1 %kept, label %done, label %drop
drop:
  call i32 @TVMFFIObjectDecRef(ptr %error)
  br label %done
done:
  ret void
}

; A thread of the pool: looks for a new job for a while, and sleeps when there is none.
define internal ptr @worker(ptr %argument) {
entry:
  %wide = ptrtoint ptr %argument to i64
  %number = trunc i64 %wide to i32
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %now, %scan ], [ %seen, %woken ], [ %seen, %stay ]
  br label %round
round:
  %rounds = phi i32 [ 0, %idle ], [ %rounds.next, %yield ]
  br label %spin
spin:
  %spins = phi i32 [ 0, %round ], [ %spins.next, %again ]
  %now = load atomic i64, ptr @epoch acquire, align 8
  %same = icmp eq i64 %now, %seen
  br i1 %same, label %again, label %scan.begin
again:
  $pause
  %spins.next = add i32 %spins, 1
  %spin.more = icmp ult i32 %spins.next, 64
  br i1 %spin.more, label %spin, label %yield
yield:
  call i32 @sched_yield()
  %rounds.next = add i32 %rounds, 1
  %rounds.most = load i32, ptr @rounds
  %round.more = icmp ult i32 %rounds.next, %rounds.most
  br i1 %round.more, label %round, label %sleep
sleep:
  call i32 @pthread_mutex_lock(ptr @mutex)
  atomicrmw add ptr @sleepers, i32 1 seq_cst
  ; A job that came before this thread was counted may have woken nobody.
  %last = load atomic i64, ptr @epoch seq_cst, align 8
  %quiet = icmp eq i64 %last, %seen
  br i1 %quiet, label %wait, label %stay
wait:
  %wakes = load i32, ptr @wakes
  %asleep = icmp eq i32 %wakes, 0
  br i1 %asleep, label %block, label %woken
block:
  call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %wait
woken:
  %wakes.left = sub i32 %wakes, 1
  store i32 %wakes.left, ptr @wakes
  call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %idle
stay:
  atomicrmw sub ptr @sleepers, i32 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %idle
scan.begin:
  %places = load atomic i32, ptr @top acquire, align 4
  br label %scan
scan:
  %place = phi i32 [ 0, %scan.begin ], [ %place.next, %scan.next ]
  %all = icmp uge i32 %place, %places
  br i1 %all, label %idle, label %look
look:
  %job = getelementptr [64 x %job], ptr @jobs, i32 0, i32 %place
  %gate.first = load atomic i64, ptr %job monotonic, align 8
  br label %ask
ask:
  %gate = phi i64 [ %gate.first, %look ], [ %gate.found, %enter ]
  ; Open, and somebody may still come: more than the bit of an open job alone.
  %awaited = and i64 %gate, -4294967296
  %may = icmp sgt i64 %awaited, 4611686018427387904
  br i1 %may, label %enter, label %scan.next
enter:
  %inside = sub i64 %gate, 4294967295           ; one fewer to come, one more inside
  %exchange = cmpxchg ptr %job, i64 %gate, i64 %inside acquire monotonic
  %gate.found = extractvalue { i64, i1 } %exchange, 0
  %entered = extractvalue { i64, i1 } %exchange, 1
  br i1 %entered, label %help, label %ask
help:
  %tasks.at = getelementptr %job, ptr %job, i32 0, i32 5
  %tasks = load i32, ptr %tasks.at
  %first = urem i32 %number, %tasks
  call void @work(ptr %job, i32 %first)
  atomicrmw sub ptr %job, i64 1 release
  br label %scan.next
scan.next:
  %place.next = add i32 %place, 1
  br label %scan
}

; What kernels call: do all tasks of a kernel's function, as many as the caller may use threads, up to 512, unless it
; says how many. More than that it does alone, and all of them where 64 callers are here already.
define internal i32 @launch(ptr %kernel, ptr %data, i32 %asked) {
entry:
  %environment = alloca %environment
  %any = icmp eq i32 %asked, 0
  br i1 %any, label %ask, label %choose
ask:
  %limit = load ptr, ptr @limit
  %allowed = call i32 %limit()
  %allowed.most = call i32 @llvm.smin.i32(i32 %allowed, i32 512)
  br label %choose
choose:
  %tasks = phi i32 [ %asked, %entry ], [ %allowed.most, %ask ]
  %single = select i1 %any, i32 1, i32 %asked
  %several = icmp sgt i32 %tasks, 1
  %fits = icmp sle i32 %tasks, 512
  %shared = and i1 %several, %fits
  br i1 %shared, label %find, label %alone
find:
  %place = phi i32 [ 0, %choose ], [ %place.next, %used ]
  %job = getelementptr [64 x %job], ptr @jobs, i32 0, i32 %place
  %taken.at = getelementptr %job, ptr %job, i32 0, i32 1
  %taken = load atomic i32, ptr %taken.at monotonic, align 4
  %free = icmp eq i32 %taken, 0
  br i1 %free, label %take, label %used
take:
  %before = atomicrmw xchg ptr %taken.at, i32 1 acquire
  %mine = icmp eq i32 %before, 0
  br i1 %mine, label %fill, label %used
used:
  %place.next = add i32 %place, 1
  %more = icmp ult i32 %place.next, 64
  br i1 %more, label %find, label %alone
fill:
  %places = add i32 %place, 1
  atomicrmw umax ptr @top, i32 %places release
  %failed.at = getelementptr %job, ptr %job, i32 0, i32 2
  %kernel.at = getelementptr %job, ptr %job, i32 0, i32 3
  %data.at = getelementptr %job, ptr %job, i32 0, i32 4
  %tasks.at = getelementptr %job, ptr %job, i32 0, i32 5
  %error.at = getelementptr %job, ptr %job, i32 0, i32 7
  %flags.at = getelementptr %job, ptr %job, i32 0, i32 9
  %tasks.wide = zext i32 %tasks to i64
  store i32 0, ptr %failed.at
  store ptr %kernel, ptr %kernel.at
  store ptr %data, ptr %data.at
  store i32 %tasks, ptr %tasks.at
  store ptr null, ptr %error.at
  call void @llvm.memset.p0.i64(ptr %flags.at, i8 0, i64 %tasks.wide, i1 false)
  %others = sub i32 %tasks, 1
  %others.wide = zext i32 %others to i64
  %others.high = shl i64 %others.wide, 32
  %gate = or i64 %others.high, 4611686018427387904
  store atomic i64 %gate, ptr %job release, align 8
  atomicrmw add ptr @epoch, i64 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %some = icmp sgt i32 %asleep, 0
  br i1 %some, label %wake, label %run
wake:
  call i32 @pthread_mutex_lock(ptr @mutex)
  %sleepers = load atomic i32, ptr @sleepers monotonic, align 4
  %woken = call i32 @llvm.smin.i32(i32 %sleepers, i32 %others)
  atomicrmw sub ptr @sleepers, i32 %woken seq_cst
  %wakes = load i32, ptr @wakes
  %wakes.more = add i32 %wakes, %woken
  store i32 %wakes.more, ptr @wakes
  call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %signals
signals:
  %left = phi i32 [ %woken, %wake ], [ %left.next, %signal ]
  %signal.more = icmp sgt i32 %left, 0
  br i1 %signal.more, label %signal, label %run
signal:
  call i32 @pthread_cond_signal(ptr @condition)
  %left.next = sub i32 %left, 1
  br label %signals
run:
  call void @work(ptr %job, i32 0)
  ; Nobody comes any more; those inside have tasks that they began.
  %gate.last = atomicrmw and ptr %job, i64 4294967295 acq_rel
  %inside.first = and i64 %gate.last, 4294967295
  br label %wait
wait:
  %inside = phi i64 [ %inside.first, %run ], [ %inside.next, %look ]
  %turn = phi i32 [ 0, %run ], [ %turn.next, %look ]
  %alone.now = icmp eq i64 %inside, 0
  br i1 %alone.now, label %end, label %rest
rest:
  %turn.next = add i32 %turn, 1
  %turn.low = and i32 %turn.next, 63
  %yields = icmp eq i32 %turn.low, 0
  br i1 %yields, label %yield, label %pause
yield:
  call i32 @sched_yield()
  br label %look
pause:
  $pause
  br label %look
look:
  %inside.next = load atomic i64, ptr %job acquire, align 8
  br label %wait
end:
  %failed = load atomic i32, ptr %failed.at monotonic, align 4
  %error = load ptr, ptr %error.at
  store atomic i32 0, ptr %taken.at release, align 4
  %well = icmp eq i32 %failed, 0
  br i1 %well, label %good, label %raise
raise:
  %said = icmp ne ptr %error, null
  br i1 %said, label %pass, label %say
pass:
  call void @TVMFFIErrorSetRaised(ptr %error)
  call i32 @TVMFFIObjectDecRef(ptr %error)
  br label %bad
say:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @kind, ptr @message)
  br label %bad
bad:
  ret i32 -1
good:
  ret i32 0
alone:
  %count.at = getelementptr %environment, ptr %environment, i32 0, i32 1
  store ptr null, ptr %environment
  store i32 %single, ptr %count.at
  br label %one
one:
  %task = phi i32 [ 0, %alone ], [ %task.next, %one.next ]
  %status = call i32 %kernel(i32 %task, ptr %environment, ptr %data)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %one.next, label %broken
one.next:
  %task.next = add i32 %task, 1
  %task.more = icmp slt i32 %task.next, %single
  br i1 %task.more, label %one, label %good
broken:
  ret i32 %status
}

$flags
